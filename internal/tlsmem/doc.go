// Package tlsmem is the server side of a TLS connection without I/O, for event loops. crypto/tls runs over a connection in memory. The caller
// feeds it the bytes that have arrived, and sends the bytes that it hands out.
//
//	socket ──► Feed ──► Read ──► plaintext
//	socket ◄── Flush ◄── Write ◄── plaintext
//
// crypto/tls supports blocking connections only. Its documentation does not promise that a read which found nothing can be repeated. Its code,
// however, keeps no temporary error of reading the underlying connection, only errors of writing. So the connection in memory returns no error
// of writing: written bytes wait until Flush. [Test] checks all of this with the Go version at hand. A handshake cannot be interrupted, so it
// runs over a real connection, on a goroutine that may block.
package tlsmem
