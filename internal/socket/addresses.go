package socket

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// addressesMax is how many addresses are shared: a machine that has more of them has more for each connection.
const addressesMax = 256

// Ends are the addresses of a connection. Who has many of them in a smaller form leaves Remote nil.
type Ends struct {
	Local, Remote net.Addr
}

// Addresses lets connections share what is the same for many: their local address. It may be used concurrently. The zero value is empty.
type Addresses struct {
	known sync.Map // netip.AddrPort to *Ends
	count atomic.Int32
}

// TCP returns the local address at without a remote one, the same Ends for all who ask, unless there are too many. They must not be changed.
func (a *Addresses) TCP(at netip.AddrPort) *Ends {
	if ends, ok := a.known.Load(at); ok {
		return ends.(*Ends)
	}
	ends := &Ends{Local: net.TCPAddrFromAddrPort(at)}
	if a.count.Load() >= addressesMax {
		return ends
	}
	if old, loaded := a.known.LoadOrStore(at, ends); loaded {
		return old.(*Ends)
	}
	a.count.Add(1)
	return ends
}
