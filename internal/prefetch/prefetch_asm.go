//go:build amd64 || arm64

package prefetch

// Value asks for the first 128 bytes of what the pointer in v points to. It never faults and changes nothing that a program can see, so
// neither the race detector nor the garbage collector has to know of it. On other processors than amd64 and arm64 it does nothing.
//
// In a broadcast to 10,000 connections the wait for the first line of a connection took 4 % of the CPU, 0.3 µs a delivery; when it is asked
// for two connections ahead, 1.5 %. Of nil nothing is asked: a processor that looks for a page that is not there takes 40 ns for each line.
//
//go:noescape
func Value(v any)

// Wide is Value for the first 384 bytes. A turn of an event loop touches that much of a session; asked for one turn ahead it saved an echo on
// 1,000 connections 0.1 µs of user time.
//
//go:noescape
func Wide(v any)
