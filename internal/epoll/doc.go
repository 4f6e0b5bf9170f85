// Package epoll is a thin layer over Linux's epoll: an interest list of descriptors, each with 64 bits of the caller's, and a way to
// wake who waits. See epoll(7), eventfd(2). It exists on Linux only; the rest of the package's files say so.
//
// The calls that cannot block are made with raw system calls, of which the scheduler is not told.
package epoll
