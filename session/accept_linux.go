package session

import (
	"errors"
	"net"
	"net/netip"

	"github.com/sluice-push/sluice/internal/door"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/transport"
)

// acceptBare returns what accepts connections of ln as descriptors and begins their sessions, or nil when the engine or the listener is for
// connections of package net. If the listener lets it, a loop accepts them, among its other work, as long as that goes well: then one thread
// does all, and no other is woken for a connection. At first, and after errors, which may want waiting, it is the caller.
func (ls *loops) acceptBare(srv *Server, ln *transport.Listener) func() error {
	if srv.o.Engine == EngineGoroutine || srv.o.TLS != nil || !ln.Plain() {
		return nil
	}
	all := ls.get(srv)
	if len(all) == 0 {
		return nil
	}
	here, apart, l := ln.Addr(), false, all[int(ls.next.Add(1))%len(all)]
	return func() error {
		conn, err := ln.AcceptDescriptor()
		if err != nil {
			return err
		}
		srv.admit(conn, here)
		apart = apart || errors.Is(l.watch(ln), errors.ErrUnsupported)
		return nil
	}
}

// admit begins the session of a connection that was accepted here.
func (srv *Server) admit(conn transport.Descriptor, here net.Addr) {
	s := newSession(srv, nil)
	srv.loops.sit(s, conn)
	if conn.Unix { // who connects hardly ever has a name
		s.seat.ends = &socket.Ends{Local: here, Remote: nameless}
	}
	_ = srv.begin(s) // a refusal is counted there
}

// nameless is the address of a Unix socket that has none.
var nameless = &net.UnixAddr{Net: "unix"}

// watch has the loop accept the connections of ln, and returns when it does so no more.
func (l *loop) watch(ln *transport.Listener) error {
	l.mu.Lock()
	handle := l.seated.Add(nil)
	l.mu.Unlock()
	d, err := door.Open(ln, l.list, handle)
	if err == nil {
		l.mu.Lock()
		l.doors[handle] = d
		l.mu.Unlock()
		d.Wait()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doors, handle)
	l.seated.Remove(handle)
	return err
}

// admit accepts what waits at the doors that were reported.
func (d *driver) admit() {
	for i, at := range d.doors {
		at.Admit(func(conn transport.Descriptor) { d.loop.srv.admit(conn, at.Here) })
		d.doors[i] = nil
	}
	d.doors = d.doors[:0]
}

// name gives s, which has a seat and is not running, other addresses than those of its socket.
func (ls *loops) name(s *Session, local, remote net.Addr) {
	to, isTCP := remote.(*net.TCPAddr)
	if at, ok := local.(*net.TCPAddr); ok && isTCP {
		s.seat.peer, s.seat.ends = to.AddrPort(), ls.addresses.TCP(at.AddrPort())
		return
	}
	s.seat.peer, s.seat.ends = netip.AddrPort{}, &socket.Ends{Local: local, Remote: remote}
}
