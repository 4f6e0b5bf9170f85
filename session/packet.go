package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/transport/udp"
)

// Sessions over datagrams. The sessions of all peers of a socket share that socket, and a datagram.Socket runs them (package internal/datagram).
// Each has a packetConn as its engine, which takes no goroutine and no buffer, only a node of the socket's timing wheel. Lock order: the
// session's mutex, the server's, then the socket's or that of its Sender.

// The defaults for sessions over datagrams.
const (
	packetIdle     = time.Minute // IdleTimeout, if it is zero
	packetSessions = 64 << 10    // MaxSessions, if it is zero
)

// ServePacket runs sessions over datagrams that pc receives: one for each address that sends any. It blocks until the server is closed, when it
// returns [ErrServerClosed], or until reading fails for good, which ends all sessions of the socket. When it returns, pc is closed, and no
// function of the handler is running for its sessions. ServePacket may be called several times, with different sockets. Sockets that share a
// port spread the work.
//
// A *udp.Conn is read and written in batches. Any other net.PacketConn is read one datagram at a time and written with WriteTo,
// which may wait for room. Several goroutines must be able to use it, it must keep deadlines, and calls that Close ends must return
// net.ErrClosed. Addresses that are not IP addresses must have different texts. The section on datagrams of the package comment lists the
// differences from streams. Options.TLS is refused, with errors.ErrUnsupported.
func (srv *Server) ServePacket(pc net.PacketConn) error {
	if srv.o.TLS != nil {
		_ = pc.Close()
		return errPacketTLS
	}
	return srv.servePackets(datagram.NewConn(pc))
}

// servePackets does the work of ServePacket.
func (srv *Server) servePackets(conn datagram.Conn) error {
	k := srv.newPacketSocket(conn, srv.packetLimited(Limits{}), false)
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		conn.Close()
		return srv.closedErr
	}
	srv.sockets.Add(k)
	srv.mu.Unlock()
	if err := k.Run(); err != nil && !srv.isClosed() {
		return packetReadError(err)
	}
	return srv.closedErr
}

var errPacketTLS = fmt.Errorf("session: TLS over datagrams: %w", errors.ErrUnsupported)

func packetReadError(err error) error { return fmt.Errorf("session: read: %w", err) }

// newPacketSocket returns a socket whose sessions have the settings o, unless they get limits of their own.
func (srv *Server) newPacketSocket(conn datagram.Conn, o *settings, connected bool) *datagram.Socket {
	a := &packetAdmission{srv: srv, o: o}
	a.socket = datagram.NewSocket(&datagram.Config{
		Conn: conn, Pool: &srv.pools.Read, Waits: o.Policy == Wait, WriteTimeout: o.WriteTimeout,
		Now: srv.clock, Epoch: srv.start, OnStall: srv.watchdog.Start, Retry: temporary, Admit: a.admit,
		Pause: func(err error, pause time.Duration, wake <-chan struct{}) {
			srv.pause("session: reading datagrams failed, retrying", err, pause, wake)
		},
	}, connected)
	return a.socket
}

// overPackets reports whether a network transports datagrams.
func overPackets(network string) bool { return strings.HasPrefix(network, "udp") }

// dialPacket does the work of DialWith for datagrams.
func (c *Client) dialPacket(ctx context.Context, network, address string, at *Attach) (*Session, error) {
	srv := c.srv
	if c.dial.TLS != nil {
		return nil, errPacketTLS
	}
	s := newSession(srv, at)
	if len(at.Initial) > datagram.Max6 {
		return nil, fmt.Errorf("session: initial bytes: %w", ErrTooLarge)
	}
	pc, err := udp.Dial(ctx, network, address, &udp.Options{
		PeerErrors: true, WriteBuffer: max(srv.o.SendBuffer, 0),
	})
	if err != nil {
		return nil, c.dialError(err)
	}
	o := srv.packetLimited(at.Limits)
	p := newPacketConn(s, srv.newPacketSocket(datagram.NewConn(pc), o, true), o, nil)
	s.peer = clientaddr.AddrPort(pc.RemoteAddr())
	if len(at.Initial) > 0 {
		p.reg.Keep(at.Initial)
	}
	if err := srv.begin(s); err != nil {
		return nil, err
	}
	return s, nil
}

// packetLimited is limited for a session over datagrams. Its IdleTimeout is on by default.
func (srv *Server) packetLimited(l Limits) *settings {
	l.IdleTimeout = instead(l.IdleTimeout, srv.o.packetIdle)
	return srv.limited(l)
}

// packetAdmission makes the sessions of one socket, if limits allow them.
type packetAdmission struct {
	srv    *Server
	socket *datagram.Socket
	o      *settings
	warned atomic.Int64 // when a refusal was last logged, by the socket's clock
}

// admit makes a session for a peer that has none, or returns nil if a limit forbids it. The limits are checked first, so a refusal allocates no
// session.
func (a *packetAdmission) admit(at netip.AddrPort, other *datagram.OtherAddr) datagram.Member {
	err := a.srv.checkPacketLimits(at)
	if err == nil {
		s := newSession(a.srv, nil)
		p := newPacketConn(s, a.socket, a.o, other)
		s.peer = at
		if err = a.srv.addSession(s); err == nil {
			s.out.Lock()
			s.startClocksLocked()
			s.out.Unlock()
			return p
		}
	}
	if errors.Is(err, a.srv.closedErr) {
		return nil
	}
	a.srv.counters[0].refused.Add(1)
	if f := a.srv.observer.Refused; f != nil {
		var addr net.Addr = net.UDPAddrFromAddrPort(at)
		if other != nil {
			addr = other.Addr
		}
		f(addr, err)
	}
	now := a.socket.Now()
	if last := a.warned.Load(); (last == 0 || now-last >= int64(time.Second)) && a.warned.CompareAndSwap(last, now) {
		a.srv.o.Logger.Debug("session: datagram of a new peer refused", "error", err)
	}
	return nil
}

// checkPacketLimits returns an error if a limit forbids another session over datagrams.
func (srv *Server) checkPacketLimits(from netip.AddrPort) error {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	limit := srv.o.MaxSessionsPerAddress
	switch {
	case srv.closed:
		return srv.closedErr
	case len(srv.live) >= srv.o.MaxSessions, srv.packetCount >= srv.o.packetSessions,
		limit > 0 && from.IsValid() && srv.addresses[clientaddr.Of(from.Addr())] >= limit:
		return ErrLimit
	}
	return nil
}
