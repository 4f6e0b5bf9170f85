package session

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/tlsmem"
)

// OnLoop reports whether an event loop runs s.
func OnLoop(s *Session) bool { return s.loop.on != nil }

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
		lowat, err2 = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, sockopt.NotSentLowat)
	}); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	return n != 0, lowat
}

// ServeLate is ServeConn that calls before when the session can be found already, but is not registered at its loop.
func ServeLate(srv *Server, conn net.Conn, before func(*Session)) *Session {
	s := newSession(srv, nil)
	if !srv.loops.adopt(s, conn) {
		panic("session: it is not on a loop")
	}
	if err := srv.addSession(s); err != nil {
		panic(err)
	}
	before(s)
	s.c.start()
	return s
}

// FailTLS makes the test of crypto/tls fail for a server that has no session yet.
func FailTLS(srv *Server, err error) { srv.loops.secrets.Test = func() error { return err } }

// SetTLS makes the sessions of srv, which has none yet, speak TLS. All servers share one test of crypto/tls.
func SetTLS(srv *Server, c *tls.Config) {
	srv.o.TLS = c
	srv.loops.secrets.Test = testTLS
}

var testTLS = sync.OnceValue(tlsmem.Test)

// HasPending reports whether the connection of s holds bytes that it has taken but could not send.
func HasPending(s *Session) bool { return s.c.HasPending() }

// HoldEnd makes the connection of s hold its end once, as if there were no room for it, and counts the calls of CloseWrite. To be called in
// Open.
func HoldEnd(s *Session) *atomic.Int64 {
	c := &holdingEngine{engineConn: s.c}
	s.c = c
	s.out.SetSocket(noSocket)
	return &c.ends
}

type holdingEngine struct {
	engineConn
	ends atomic.Int64
	held atomic.Bool
}

func (c *holdingEngine) CloseWrite() bool {
	if c.ends.Add(1) == 1 {
		c.held.Store(true)
		return true
	}
	return c.engineConn.CloseWrite()
}

func (c *holdingEngine) HasPending() bool { return c.held.Load() || c.engineConn.HasPending() }

func (c *holdingEngine) TryWrite(b *buffer.Batch) (int, error) {
	c.held.Store(false)
	return c.engineConn.TryWrite(b)
}

// ZeroCopied returns how many calls have sent without copying, and whether zero copy was given up.
func ZeroCopied(s *Session) (calls uint32, off bool) {
	s.out.Lock()
	defer s.out.Unlock()
	if !s.loop.zeroCopied {
		return 0, false
	}
	z := s.zeroCopy()
	return z.Calls(), z.Off
}

// ZeroCopying returns for how many sessions the server keeps reports of zero copy.
func ZeroCopying(srv *Server) int {
	srv.loops.zeroMu.Lock()
	defer srv.loops.zeroMu.Unlock()
	return len(srv.loops.zero)
}

// KeepZeroCopy makes the sessions of srv, which has none yet, go on with zero copy although the kernel reports that it copies.
func KeepZeroCopy(srv *Server) { srv.loops.zeroKeep = true }
