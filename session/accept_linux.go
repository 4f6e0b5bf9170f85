package session

import (
	"net"
	"net/netip"

	"github.com/sluice-push/sluice/transport"
)

// acceptBare returns what accepts one connection of ln as a descriptor and begins its session, or nil when the engine or the listener
// is for connections of package net.
func (ls *loops) acceptBare(srv *Server, ln *transport.Listener) func() error {
	if srv.o.Engine == EngineGoroutine || srv.o.TLS != nil || !ln.Plain() || len(ls.get(srv)) == 0 {
		return nil
	}
	here, there := ln.Addr(), &net.UnixAddr{Net: "unix"} // of all Unix sockets: who connects hardly ever has a name
	return func() error {
		d, err := ln.AcceptDescriptor()
		if err != nil {
			return err
		}
		s := newSession(srv, nil)
		ls.sit(s, d)
		if d.Unix {
			s.seat.here, s.seat.there = here, there
		}
		_ = srv.begin(s) // a refusal is counted there
		return nil
	}
}

// name gives s, which has a seat and is not running, other addresses than those of its socket.
func (ls *loops) name(s *Session, local, remote net.Addr) {
	s.seat.peer, s.seat.here, s.seat.there = netip.AddrPort{}, local, remote
	if tcp, ok := remote.(*net.TCPAddr); ok {
		s.seat.peer, s.seat.there = tcp.AddrPort(), nil
	}
	if tcp, ok := local.(*net.TCPAddr); ok {
		s.seat.here = ls.addresses.TCP(tcp.AddrPort())
	}
}
