// Package network makes a good network weak: a proxy for TCP on loopback that delays, thins out, stalls, cuts off and resets what goes
// through it, so that tests and benchmarks see what clients on trains see.
//
// A [Proxy] listens, connects to its target for whoever connects to it, and passes bytes on as its [Conditions] have it. They are written
// as text too, so a flag can hold them:
//
//	c, err := network.ParseConditions("3g,stall=2s/30s")
//	p, err := network.Listen("", "127.0.0.1:8000", c)
//	defer p.Close()
//	conn, err := net.Dial("tcp", p.Addr().String())
//
// While it runs, conditions may change, for all connections or for one ([Proxy.SetConditions], [Conn.SetConditions]), and what conditions
// leave to chance can be done at will: [Proxy.Stall] and [Proxy.Resume], [Proxy.HalfOpen], [Proxy.Reset].
//
// # What a connection goes through
//
// Each direction has a way of its own, a [Way]. Bytes that arrive at the proxy wait for their delay, then for their turn at the bandwidth,
// and leave in their order: TCP neither loses nor reorders, so a packet that is lost on the way looks like a stall, and one that is late
// holds up what follows it. At most Buffer bytes are under way; when so many are, the proxy reads no more, and since the kernel's
// buffers of its sockets are small, the sender notices soon. The end of a stream travels behind the bytes, and so does a reset.
//
// Times under way are rounded up to whole milliseconds. The handshake of TCP itself takes no time, for the kernel of this host answers
// it: a new connection is one round trip faster than it would be. For the same reason who is refused sees a connection that is made and
// reset at once.
//
// # Chance
//
// What is random follows from Conditions.Seed and from the number of the connection, which counts from 0 in the order in which the proxy
// accepted them. It does not depend on the traffic, except for jitter, of which each arrival draws its own.
package network
