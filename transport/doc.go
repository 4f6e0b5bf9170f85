// Package transport makes listeners and connections, and nothing else: plain net.Listener and net.Conn over TCP, TLS and Unix
// stream sockets, with the options that servers of very many connections want, and in memory, for tests; and sockets for datagrams.
//
//	ln, err := transport.Listen(ctx, "tcp", ":7000", &transport.Options{ReusePort: true})
//	conn, err := ln.Accept()
//
// Servers of package session accept from any net.Listener, and have options of their own for sockets and TLS. They need this package for
// what those do not say: a shared port, PROXY headers, the permissions of a Unix socket, certificates that change, tests in memory.
//
// # Descriptors
//
// A net.TCPConn costs the better part of a kilobyte. An event loop of its own needs none: [Listener.AcceptDescriptor] returns the
// bare descriptor with the addresses, [Detach] takes it out of a connection that was accepted elsewhere, and [Attach] makes a net.Conn
// again. Linux only; [Listener.Plain] says whether it works.
//
// # TLS
//
// Options.TLS makes listeners and dials speak it. [Certificates] are read from files, chosen by name, and read again when the files
// change or [Certificates.Reload] is called.
//
// # Without descriptors
//
// A server that has run out of descriptors does not leave clients hanging, nor does it spin: see [Listener].
//
// # Behind a proxy
//
// With [Proxy] a listener reads the header of the PROXY protocol, versions 1 and 2, from trusted peers, and connections have the
// addresses that it says. Accept does not wait for it: the first who uses the connection does, or HandshakeContext, as with a
// *tls.Conn.
//
// # In memory
//
// [Pipe] is a connection without a network that behaves as TCP does, with room for bytes that nobody has read yet, deadlines and a
// half-close; [MemoryListener] is where a server under test listens. Both work inside bubbles of testing/synctest.
//
// # Datagrams
//
// [ListenPacket] and [DialPacket] make UDP sockets that read and write many datagrams in a call, on Linux in one system call:
//
//	ps := make([]transport.Packet, 64) // each with memory in Data
//	for {
//		n, err := conn.ReadBatch(ps)
//		if err != nil {
//			return err
//		}
//		for _, p := range ps[:n] {
//			handle(p.Addr, p.Data)
//		}
//	}
//
// What concerns a single datagram is a *[PacketError] and ends nothing. What the kernel threw away is in [PacketConn.Stats].
package transport
