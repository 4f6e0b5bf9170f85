package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/seldom"
)

// scarce says in the log when connections cannot be accepted because descriptors are used up. With a spare descriptor one connection at a time is
// accepted even then, which is how health and metrics are still told.
type scarce struct {
	net.Listener
	log     *slog.Logger
	said    seldom.Warning
	reserve bool // keep a spare one

	mu    sync.Mutex
	spare *os.File // guarded by mu: nil while it is lent
}

func newScarce(l net.Listener, reserve bool, log *slog.Logger) *scarce {
	s := &scarce{Listener: l, log: log, reserve: reserve}
	s.keep()
	return s
}

// keep takes a spare descriptor if there is none. Where none is to be had it is tried again with the next connection.
func (s *scarce) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserve && s.spare == nil {
		s.spare, _ = os.Open(os.DevNull)
	}
}

// lend gives the spare descriptor up, and reports whether there was one.
func (s *scarce) lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare == nil {
		return false
	}
	_ = s.spare.Close()
	s.spare = nil
	return true
}

// Accept implements net.Listener.
func (s *scarce) Accept() (net.Conn, error) {
	s.keep()
	c, err := s.Listener.Accept()
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return c, err
	}
	if s.said.Due(time.Now()) {
		s.log.Warn("connections cannot be accepted: no descriptor is left. Raise the limit of open files (ulimit -n), or lower limits.sessions",
			"address", s.Addr().String(), "error", err)
	}
	if !s.lend() {
		return nil, err
	}
	if c, err = s.Listener.Accept(); err != nil {
		return nil, err
	}
	return &lentConn{Conn: c, back: sync.OnceFunc(s.keep)}, nil
}

// Close implements net.Listener.
func (s *scarce) Close() error {
	s.mu.Lock()
	s.reserve = false
	s.mu.Unlock()
	s.lend()
	return s.Listener.Close()
}

// lentConn is a connection that has the spare descriptor.
type lentConn struct {
	net.Conn
	back func()
}

func (c *lentConn) Close() error {
	err := c.Conn.Close()
	c.back()
	return err
}
