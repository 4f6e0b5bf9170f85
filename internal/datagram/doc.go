// Package datagram runs sessions over datagrams. It is an engine beside package eventloop, and knows sessions only as [Member] values.
//
// A [Socket] has one member for each peer of a datagram socket. One goroutine at a time, the reader, reads a batch of datagrams and dispatches the
// member of each: see reader.go. Idle members need no goroutine and no buffer, only a node of the Socket's timing wheel. If a dispatch
// takes long, another reader takes over. [Sockets] are those of one server.
//
// Below that, a [Conn] reads and writes in batches if the system can. A [Sender] corks outgoing datagrams, and queues datagrams that wait for
// room. [Slots] are the memory that a reader reads into. An [Inbox] holds datagrams until their member is dispatched.
//
// A [Sender] knows its users only as [Peer] values: an address, and methods that it calls. The Sender has at most one goroutine, and only while
// a datagram waits for room. All goroutines of a Socket are counted: Run and Sockets.Wait wait for them. Lock order: the lock of a Member or
// Peer, then the mutex of the Socket or the Sender.
package datagram
