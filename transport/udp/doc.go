// Package udp makes UDP sockets that read and write many datagrams in one call, on Linux in one system call.
//
//	conn, err := udp.Listen(ctx, "udp", ":9000", &udp.Options{ReadBuffer: 4 << 20})
//	ps := make([]udp.Packet, 64) // each with memory in Data
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
// An error of a single datagram is a *[Error], and the socket stays usable. [Conn.Stats] counts the datagrams that the kernel has dropped.
// Servers of package session run a session for each peer of such a socket: see ServePacket there.
package udp
