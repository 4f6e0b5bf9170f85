// Package zones knows network interfaces by name and by number, as the zones of addresses have them.
package zones

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Name returns the name of an interface, as package net has it. Only link-local addresses have one.
func Name(id uint32) string {
	if i, err := net.InterfaceByIndex(int(id)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Index returns the number of an interface by its name, or the number that is there instead; zero for none.
func Index(name string) uint32 {
	if name == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(name); err == nil {
		return uint32(ifi.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// age is how long the name of an interface is believed, as in package net.
const age = time.Minute

// most bounds each table of zones: when it is full of others it is emptied.
const most = 64

// Table remembers the names and numbers of interfaces, which cost several system calls to ask for. The zero value is ready.
type Table struct {
	mu    sync.Mutex
	names map[uint32]entry
	ids   map[string]entry
}

// entry is what was found out, and until when it is believed. It holds the name as part of an address: as long as there is one, making
// others allocates nothing.
type entry struct {
	addr  netip.Addr
	id    uint32
	until time.Time
}

// With returns the address with the name of an interface as its zone.
func (z *Table) With(a netip.AddrPort, id uint32, now time.Time) netip.AddrPort {
	z.mu.Lock()
	e, ok := z.names[id]
	z.mu.Unlock()
	if !ok || now.After(e.until) {
		e = entry{addr: netip.IPv6Unspecified().WithZone(Name(id)), id: id, until: now.Add(age)}
		z.mu.Lock()
		if z.names == nil || len(z.names) >= most {
			z.names = make(map[uint32]entry)
		}
		z.names[id] = e
		z.mu.Unlock()
	}
	return netip.AddrPortFrom(a.Addr().WithZone(e.addr.Zone()), a.Port())
}

// Index returns the number of an interface, zero for one that does not exist.
func (z *Table) Index(name string, now time.Time) uint32 {
	z.mu.Lock()
	e, ok := z.ids[name]
	z.mu.Unlock()
	if ok && !now.After(e.until) {
		return e.id
	}
	e = entry{id: Index(name), until: now.Add(age)}
	if e.id == 0 {
		return 0 // it may be there a moment later
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.ids == nil || len(z.ids) >= most {
		z.ids = make(map[string]entry)
	}
	z.ids[name] = e
	return e.id
}

// Len returns how many entries there are.
func (z *Table) Len() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.names) + len(z.ids)
}
