package socket

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// addressesMax is how many addresses are shared: a machine that has more of them has more for each connection.
const addressesMax = 256

// Addresses lets connections share what is the same for many: their local address. It may be used concurrently. The zero value is empty.
type Addresses struct {
	known sync.Map // netip.AddrPort to net.Addr
	count atomic.Int32
}

// TCP returns the address at as a net.Addr, the same one for all who ask, unless there are too many.
func (a *Addresses) TCP(at netip.AddrPort) net.Addr {
	if addr, ok := a.known.Load(at); ok {
		return addr.(net.Addr)
	}
	var addr net.Addr = net.TCPAddrFromAddrPort(at)
	if a.count.Load() >= addressesMax {
		return addr
	}
	if old, loaded := a.known.LoadOrStore(at, addr); loaded {
		return old.(net.Addr)
	}
	a.count.Add(1)
	return addr
}
