package transport

import (
	"net/netip"
	"sync"
	"time"
)

// zoneAge is how long the name of an interface is believed, as in package net.
const zoneAge = time.Minute

// maxZones bounds each table of zones: when it is full of others it is emptied.
const maxZones = 64

// zoneTable remembers the names and numbers of interfaces, which cost several system calls to ask for. The zero value is ready.
type zoneTable struct {
	mu    sync.Mutex
	names map[uint32]zoneEntry
	ids   map[string]zoneEntry
}

// zoneEntry is what was found out, and until when it is believed. It holds the name as part of an address: as long as there is one, making
// others allocates nothing.
type zoneEntry struct {
	addr  netip.Addr
	id    uint32
	until time.Time
}

// with returns the address with the name of an interface as its zone.
func (z *zoneTable) with(a netip.AddrPort, id uint32, now time.Time) netip.AddrPort {
	z.mu.Lock()
	e, ok := z.names[id]
	z.mu.Unlock()
	if !ok || now.After(e.until) {
		e = zoneEntry{addr: netip.IPv6Unspecified().WithZone(zone(id)), id: id, until: now.Add(zoneAge)}
		z.mu.Lock()
		if z.names == nil || len(z.names) >= maxZones {
			z.names = make(map[uint32]zoneEntry)
		}
		z.names[id] = e
		z.mu.Unlock()
	}
	return netip.AddrPortFrom(a.Addr().WithZone(e.addr.Zone()), a.Port())
}

// index returns the number of an interface, zero for one that does not exist.
func (z *zoneTable) index(name string, now time.Time) uint32 {
	z.mu.Lock()
	e, ok := z.ids[name]
	z.mu.Unlock()
	if ok && !now.After(e.until) {
		return e.id
	}
	e = zoneEntry{id: zoneIndex(name), until: now.Add(zoneAge)}
	if e.id == 0 {
		return 0 // it may be there a moment later
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.ids == nil || len(z.ids) >= maxZones {
		z.ids = make(map[string]zoneEntry)
	}
	z.ids[name] = e
	return e.id
}
