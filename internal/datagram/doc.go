// Package datagram is what a socket for datagrams does for those who talk over it, whoever they are: it is read and written in batches
// where the system can ([Conn]), what is sent is gathered or waits for room ([Sender]), a reader has memory to read into ([Slots]),
// and what has arrived waits until somebody has time ([Inbox]).
//
// A [Sender] knows of its users only that they are a [Peer] each: an address, and what has to be told it. Its goroutine, of which there
// is at most one and only while somebody waits for room, is started by Options.Go, so that the owner of the socket can wait for it.
// Lock order: what a Peer locks itself, then the Sender's mutex.
package datagram
