package session

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/internal/tlsconn"
)

// OnLoop reports whether s has a seat in an event loop.
func OnLoop(s *Session) bool { return s.seat.loop != nil }

// SocketOptions returns TCP_NODELAY and TCP_NOTSENT_LOWAT of the connection under s.
func SocketOptions(t testing.TB, s *Session) (noDelay bool, lowat int) {
	t.Helper()
	conn := s.Conn()
	for {
		under, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = under.NetConn()
	}
	rc, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var err1, err2 error
	if err := rc.Control(func(fd uintptr) {
		n, err1 = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
		lowat, err2 = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, socket.NotSentLowat)
	}); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	return n != 0, lowat
}

// ServeLate is ServeConn with something that happens when the session can be found already, but has not begun.
func ServeLate(srv *Server, conn net.Conn, before func(*Session)) *Session {
	s := newSession(srv, nil)
	if !srv.loops.seat(s, conn) {
		panic("session: it has no seat")
	}
	if err := srv.enter(s); err != nil {
		panic(err)
	}
	before(s)
	s.c.start()
	return s
}

// Told reports whether the end of the peer of s, which has a goroutine, is watched.
func Told(s *Session) bool { return s.own.raw.peer.Told() }

// FailTLS makes the test of crypto/tls fail for a server which has no session yet.
func FailTLS(srv *Server, err error) { srv.loops.secrets.Test = func() error { return err } }

// SetTLS makes the sessions of srv, which has none yet, speak TLS. All servers share one test of crypto/tls.
func SetTLS(srv *Server, c *tls.Config) {
	srv.o.TLS = c
	srv.loops.secrets.Test = testTLS
}

var testTLS = sync.OnceValue(tlsconn.Test)

// Holding reports whether the connection of s holds bytes that it has taken and has no room for.
func Holding(s *Session) bool { return s.c.holding() }

// HoldEnd makes the connection of s hold its end once, as if there were no room for it, and counts how often it is told to end. To be
// called in Open.
func HoldEnd(s *Session) *atomic.Int64 {
	c := &holdingCarrier{carrier: s.c}
	s.c = c
	return &c.ends
}

type holdingCarrier struct {
	carrier
	ends atomic.Int64
	held atomic.Bool
}

func (c *holdingCarrier) closeWrite() bool {
	if c.ends.Add(1) == 1 {
		c.held.Store(true)
		return true
	}
	return c.carrier.closeWrite()
}

func (c *holdingCarrier) holding() bool { return c.held.Load() || c.carrier.holding() }

func (c *holdingCarrier) offer(b *buffer.Batch) (int, error) {
	c.held.Store(false)
	return c.carrier.offer(b)
}

// ZeroCopied returns how many calls have sent without copying, and whether that was given up.
func ZeroCopied(s *Session) (calls uint32, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seat.zero {
		return 0, false
	}
	z := s.zeroCopy()
	return z.Calls(), z.Off
}

// ZeroCopying returns of how many sessions it is remembered that they have sent without copying.
func ZeroCopying(srv *Server) int {
	srv.loops.zeroMu.Lock()
	defer srv.loops.zeroMu.Unlock()
	return len(srv.loops.zero)
}

// KeepZeroCopy makes the sessions of srv, which has none yet, go on to send without copying although the kernel reports that it copies.
func KeepZeroCopy(srv *Server) { srv.loops.zeroKeep = true }
