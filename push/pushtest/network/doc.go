// Package network simulates weak networks: a TCP proxy on loopback that delays, limits, stalls, cuts off and resets the connections through it.
// With it, tests and benchmarks see what clients on trains see.
//
// A [Proxy] listens, connects to its target for each client, and passes bytes on under its [Conditions]. These have a text form, so a flag can
// hold them:
//
//	c, err := network.ParseConditions("3g,stall=2s/30s")
//	p, err := network.Listen("", "127.0.0.1:8000", c)
//	defer p.Close()
//	conn, err := net.Dial("tcp", p.Addr().String())
//
// While the proxy runs, conditions may be changed, for all connections or for one ([Proxy.SetConditions], [Conn.SetConditions]). Events that
// conditions leave to chance can also be triggered: [Proxy.Stall] and [Proxy.Resume], [Proxy.HalfOpen], [Proxy.Reset].
//
// # The way of the bytes
//
// Each direction has its own [Way]. Bytes that arrive at the proxy wait for their delay, then for the bandwidth, and leave in order. TCP neither
// loses nor reorders, so a packet lost on the way looks like a stall, and a late one holds up its successors. At most Buffer bytes are under
// way. At that limit the proxy stops reading, and because the kernel's buffers of its sockets are small, the sender notices soon. The end of a
// stream travels behind the bytes, and so does a reset.
//
// Delays are rounded up to whole milliseconds. The TCP handshake takes no time, because the kernel of this host answers it: a new connection is
// one round trip faster than in reality. For the same reason, a client that is refused sees a connection that is made and reset at once.
//
// # Chance
//
// Random events follow from Conditions.Seed and from the number of the connection, which counts from 0 in the order in which the proxy accepted
// them. They do not depend on the traffic, except for jitter, which is drawn for each arrival.
package network
