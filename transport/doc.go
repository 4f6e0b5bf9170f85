// Package transport makes listeners and connections: net.Listener and net.Conn over TCP, TLS and Unix stream sockets, with the options that
// servers of very many connections need, and in memory, for tests. Package transport/udp makes UDP sockets.
//
//	ln, err := transport.Listen(ctx, "tcp", ":7000", &transport.Options{ReusePort: true})
//	conn, err := ln.Accept()
//
// Servers of package session accept from any net.Listener, and have options of their own for sockets and TLS. They need this package for a
// shared port, PROXY headers, the permissions of a Unix socket, certificates that change, and tests in memory.
//
// # Descriptors
//
// A net.TCPConn takes the better part of a kilobyte. A server with an event loop of its own needs none: [Listener.AcceptDescriptor] returns the
// socket's descriptor with the addresses, [Detach] takes the descriptor out of a net.Conn, and [Attach] makes a net.Conn again. This works on
// Linux only; [Listener.Plain] reports whether it does.
//
// # TLS
//
// Options.TLS makes listeners and dialed connections use TLS. [Certificates] are read from files and chosen by name. They are read again when
// the files change or [Certificates.Reload] is called.
//
// # Without descriptors
//
// A server that has run out of descriptors neither leaves clients hanging nor spins: see [Listener].
//
// # Behind a proxy
//
// With [Proxy] a listener reads the header of the PROXY protocol, versions 1 and 2, from trusted peers, and connections have the addresses of
// the header. Accept does not wait for the header. The first call of Read, Write or HandshakeContext reads it, as with a *tls.Conn.
//
// # In memory
//
// [Pipe] is a connection without a network that behaves like TCP, with a buffer for unread bytes, deadlines and a half-close. [MemoryListener]
// is a listener for servers under test. Both work inside bubbles of testing/synctest.
package transport
