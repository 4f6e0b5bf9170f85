// Package tlsconn is the server's end of a TLS connection without I/O, for event loops: it is fed what has arrived, and says what is to
// be sent. The TLS is that of crypto/tls, which knows blocking connections only; so it is given a connection in memory.
//
//	socket ──► Feed ──► Read ──► plaintext
//	socket ◄── Flush ◄── Write ◄── plaintext
//
// That reads may find nothing and be tried again is not promised by crypto/tls, although its code sees to it: an error of the
// connection under it that is temporary does not stay. Writes must never fail, because their errors do stay, and never do: what is
// written waits in memory until Flush. [Test] shows whether all this holds in the Go version at hand. A handshake cannot be
// interrupted, so it is made over a real connection, by a goroutine that may block.
package tlsconn
