// Package splice moves bytes from one connection to another without copying them into the process. A proxy uses it for bodies: it decodes the
// header of a message, and then has the kernel move the rest.
//
//	pool := splice.New(nil)
//	defer pool.Close()
//	n, err := pool.Move(dst, src, head, left)
//
// Move writes head, which are bytes of src that the caller has read already, and then exactly as many bytes of src as the caller says.
//
// # How bytes move
//
// On Linux, between plain TCP and Unix stream sockets (*net.TCPConn and *net.UnixConn, in any combination), the kernel moves the pages of its
// buffers through a pipe: splice(2). A [Pool] keeps such pipes. While a socket is not ready, the goroutine is parked in the runtime's poller.
//
// In all other cases Move copies through a buffer of 64 KiB, with the same result: on other systems, over TLS and all other types of connections
// (also types that embed a TCP connection, because they may hold bytes in a buffer), if the kernel refuses to splice, if there is no descriptor for
// a pipe, and for transfers that are shorter than Options.Threshold. [Pool.Direct] reports whether a transfer would be spliced.
//
// io.CopyN of the standard library splices to TCP only, always, and does not say which of the two connections has failed.
//
// # Back-pressure, deadlines, ends
//
// Move reads only what dst has room for: at most one pipe or buffer is ahead. The read deadline of src and the write deadline of dst hold, and may
// be changed meanwhile. Closing either connection ends Move. While Move waits for src, it does not notice that the peer of dst has left; the
// goroutine that reads from dst notices.
//
// Urgent data of TCP, which RFC 6093 advises against, stops splice(2) for ever. If peers are not trusted, set a deadline.
//
// # Sessions
//
// A session of package session owns its connection, so Move cannot take bytes of its stream. A proxy that uses Move reads its connections itself,
// as examples/sidecar does.
package splice
