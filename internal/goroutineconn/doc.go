// Package goroutineconn runs connections on goroutines: one goroutine for each connection, which reads, decodes and calls the handler, and which the
// Go runtime's network poller parks while the peer is silent. It is an engine beside package eventloop, for any net.Conn and any system, and
// knows sessions only as [Member] values.
//
//	Run ──► handshake ──► Begin ──► CatchUp ──► Stream.Each: wait, read, Received, read, Received ... ──► CatchUp ...
//	                                                 │
//	                                     the read deadline, which is the timer, has passed: TimerFired, Tick
//
// A second goroutine exists only while the connection has no room: it writes the queue of the member's Writer. The members' locks are those of their
// Writers.
package goroutineconn
