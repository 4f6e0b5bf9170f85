package sockopt

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// InterfaceName returns the name of an interface by its index, as package net does, or the index in decimal if it has none. Only link-local
// addresses need an interface.
func InterfaceName(id uint32) string {
	if i, err := net.InterfaceByIndex(int(id)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// InterfaceIndex returns the index of an interface by its name. If there is no such interface, it returns the decimal number that name contains,
// or zero.
func InterfaceIndex(name string) uint32 {
	if name == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(name); err == nil {
		return uint32(ifi.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// interfaceAge is how long an entry of the table is valid, as in package net.
const interfaceAge = time.Minute

// maxInterfaces bounds each of the two maps. If a map is full, it is emptied before the next entry.
const maxInterfaces = 64

// InterfaceTable caches the names and indexes of interfaces, because a look-up costs several system calls. It may be used concurrently. The zero
// value is ready for use.
type InterfaceTable struct {
	mu    sync.Mutex
	names map[uint32]interfaceEntry
	ids   map[string]interfaceEntry
}

// interfaceEntry is the result of a look-up. It holds the name as the zone of an address: while that address exists, making other addresses with
// the same zone allocates nothing.
type interfaceEntry struct {
	addr  netip.Addr
	id    uint32
	until time.Time
}

// With returns the address a with the name of the interface id as its zone.
func (z *InterfaceTable) With(a netip.AddrPort, id uint32, now time.Time) netip.AddrPort {
	z.mu.Lock()
	e, ok := z.names[id]
	z.mu.Unlock()
	if !ok || now.After(e.until) {
		e = interfaceEntry{addr: netip.IPv6Unspecified().WithZone(InterfaceName(id)), id: id, until: now.Add(interfaceAge)}
		z.mu.Lock()
		if z.names == nil || len(z.names) >= maxInterfaces {
			z.names = make(map[uint32]interfaceEntry)
		}
		z.names[id] = e
		z.mu.Unlock()
	}
	return netip.AddrPortFrom(a.Addr().WithZone(e.addr.Zone()), a.Port())
}

// Index returns the index of an interface, or zero if it does not exist.
func (z *InterfaceTable) Index(name string, now time.Time) uint32 {
	z.mu.Lock()
	e, ok := z.ids[name]
	z.mu.Unlock()
	if ok && !now.After(e.until) {
		return e.id
	}
	e = interfaceEntry{id: InterfaceIndex(name), until: now.Add(interfaceAge)}
	if e.id == 0 {
		return 0 // not cached, because the interface may appear a moment later
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.ids == nil || len(z.ids) >= maxInterfaces {
		z.ids = make(map[string]interfaceEntry)
	}
	z.ids[name] = e
	return e.id
}

// Len returns the number of entries.
func (z *InterfaceTable) Len() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.names) + len(z.ids)
}
