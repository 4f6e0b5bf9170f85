package portsplit

import (
	"net"
	"sync"
	"sync/atomic"
)

// backlog is how many connections wait for a side that is not served yet. More are closed.
const backlog = 128

// side is the net.Listener of one side.
type side struct {
	addr       net.Addr
	conns      chan net.Conn
	errs       chan error
	served     atomic.Bool // Accept has been called
	closed     chan struct{}
	shut       func()
	whenClosed func() error // nil for the side whose end is not that of the split
}

func newSide(addr net.Addr) *side {
	s := &side{addr: addr, conns: make(chan net.Conn, backlog), errs: make(chan error), closed: make(chan struct{})}
	s.shut = sync.OnceFunc(func() { close(s.closed) })
	return s
}

// Accept implements net.Listener.
func (s *side) Accept() (net.Conn, error) {
	s.served.Store(true)
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-s.conns:
		return conn, nil
	case err := <-s.errs:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *side) Close() error {
	s.shut()
	if s.whenClosed != nil {
		return s.whenClosed()
	}
	s.drain()
	return nil
}

// Addr implements net.Listener.
func (s *side) Addr() net.Addr { return s.addr }

// deliver passes a connection to Accept. It waits only if the side is being served.
func (s *side) deliver(conn net.Conn) {
	if !s.served.Load() {
		select {
		case s.conns <- conn:
		default:
			_ = conn.Close()
		}
		return
	}
	select {
	case s.conns <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

// fail passes an error to Accept, and reports whether it was taken.
func (s *side) fail(err error) bool {
	select {
	case s.errs <- err:
		return true
	case <-s.closed:
		return false
	}
}

// drain closes the connections that wait, after the side is closed.
func (s *side) drain() {
	for {
		select {
		case conn := <-s.conns:
			_ = conn.Close()
		default:
			return
		}
	}
}
