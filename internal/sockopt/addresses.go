package sockopt

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// addressesMax bounds the shared addresses. Connections at further local addresses get their own copies.
const addressesMax = 256

// AddrPair are the addresses of a connection. If a caller keeps many remote addresses in a smaller form, it leaves Remote nil.
type AddrPair struct {
	Local, Remote net.Addr
}

// Addresses lets connections share equal local addresses, to save memory. It may be used concurrently. The zero value is empty.
type Addresses struct {
	known sync.Map // netip.AddrPort to *AddrPair
	count atomic.Int32
}

// TCP returns an AddrPair with the local address at and no remote address. Calls with the same address return the same AddrPair, unless there are
// more than addressesMax addresses. The caller must not change them.
func (a *Addresses) TCP(at netip.AddrPort) *AddrPair {
	if ends, ok := a.known.Load(at); ok {
		return ends.(*AddrPair)
	}
	ends := &AddrPair{Local: net.TCPAddrFromAddrPort(at)}
	if a.count.Load() >= addressesMax {
		return ends
	}
	if old, loaded := a.known.LoadOrStore(at, ends); loaded {
		return old.(*AddrPair)
	}
	a.count.Add(1)
	return ends
}
