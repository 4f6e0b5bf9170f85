package session

import (
	"fmt"
	"net"
	"net/netip"
)

// enter gives s its number and puts it among the live sessions, unless a limit forbids it.
func (srv *Server) enter(s *Session) error {
	limit := srv.o.MaxSessionsPerAddress
	if limit > 0 && !s.seat.peer.IsValid() {
		s.seat.peer = addrPort(s.RemoteAddr())
	}
	from := srv.countedAs(s)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return srv.shut
	}
	srv.lastID++
	s.id = srv.lastID
	switch {
	case len(srv.live) >= srv.o.MaxSessions, s.packet != nil && srv.packetCount >= srv.o.packetSessions:
		return fmt.Errorf("%w: %d", ErrLimit, len(srv.live))
	case from.IsValid() && srv.addresses[from] >= limit:
		return fmt.Errorf("%w: %d from %v", ErrLimit, limit, from)
	}
	if from.IsValid() {
		srv.addresses[from]++
	}
	s.place = int32(len(srv.live)) //nolint:gosec // far fewer
	srv.live = append(srv.live, s)
	if s.packet != nil {
		srv.packetCount++
	}
	return nil
}

// leave takes s from among the live sessions.
func (srv *Server) leave(s *Session) {
	from := srv.countedAs(s)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if from.IsValid() {
		if srv.addresses[from]--; srv.addresses[from] == 0 {
			delete(srv.addresses, from)
		}
	}
	last := len(srv.live) - 1
	srv.live[s.place] = srv.live[last]
	srv.live[s.place].place = s.place
	srv.live[last] = nil
	if srv.live = srv.live[:last]; last == 0 {
		srv.live = nil
	}
	if s.packet != nil {
		srv.packetCount--
	}
	if srv.single && !srv.closed {
		srv.closeLocked()
		return
	}
	srv.emptyLocked()
}

// countedAs returns the address that s is counted by; it is not valid when it is not counted by any.
func (srv *Server) countedAs(s *Session) netip.Addr {
	if srv.o.MaxSessionsPerAddress == 0 {
		return netip.Addr{}
	}
	return address(s.seat.peer.Addr())
}

// address is what sessions from ip are counted by: the address, for IPv6 its /64, which is what one customer gets.
func address(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// addrPort reads the address of a connection of any kind. It is not valid for one without IP address.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case nil, *net.UnixAddr:
		return netip.AddrPort{}
	case *net.TCPAddr:
		return a.AddrPort()
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}
