package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/transport"
)

// The pauses after an error of Accept that may pass.
const (
	acceptPause    = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Serve accepts connections and runs a session on each. It blocks until the server is closed, when it returns [ErrServerClosed], or until
// accepting fails for good. The listener is closed when Serve returns. Serve may be called several times, with different listeners.
//
// TCP and Unix listeners of package net survive a lack of descriptors, as a [transport.Listener] does, and with event loops no net.Conn is made
// for their connections. A *transport.Listener keeps its own socket options, which replace those of the server. With any other listener, errors
// that may pass are logged, and Serve tries again. If a connection starts with a PROXY header, its session begins after the header, with the
// address that the header names.
func (srv *Server) Serve(ln net.Listener) error {
	own := srv.wrap(ln)
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		_ = own.Close()
		return srv.closedErr
	}
	srv.listeners[own]++
	srv.mu.Unlock()
	defer func() {
		_ = own.Close() // before the loops stop: one of them may have to stop accepting
		srv.mu.Lock()
		if srv.listeners[own]--; srv.listeners[own] == 0 {
			delete(srv.listeners, own)
			srv.shed += shedBy(own)
		}
		srv.mu.Unlock()
	}()

	l, optionsSet := own.(*transport.Listener)
	if optionsSet {
		if accept := srv.loops.acceptor(srv, l); accept != nil {
			return srv.acceptAll(accept)
		}
	}
	return srv.acceptAll(func() error {
		conn, err := own.Accept()
		if err == nil {
			srv.startAccepted(conn, optionsSet)
		}
		return err
	})
}

// wrap makes a transport.Listener of a listener of package net. It returns any other listener as it is, and one for which there is no
// descriptor.
func (srv *Server) wrap(ln net.Listener) net.Listener {
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
	default:
		return ln
	}
	l, err := transport.Wrap(ln, srv.o.socket())
	if err != nil {
		return ln
	}
	return l
}

// acceptAll calls accept until it fails for good.
func (srv *Server) acceptAll(accept func() error) error {
	pause := acceptPause
	for {
		err := accept()
		switch {
		case err == nil:
			pause = acceptPause
		case srv.isClosed():
			return srv.closedErr
		case !temporary(err):
			return fmt.Errorf("session: accept: %w", err)
		default:
			srv.pause("session: accept failed, retrying", err, pause, nil)
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// pause reports an error that may pass, and waits for the given time, or until wake receives or the server is closed.
func (srv *Server) pause(what string, err error, pause time.Duration, wake <-chan struct{}) {
	srv.o.Logger.Warn(what, "error", err, "pause", pause)
	if f := srv.observer.AcceptFailed; f != nil {
		f(err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-srv.closing:
	}
}

func (srv *Server) isClosed() bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.closed
}

// temporary reports whether an error of Accept may pass. Temporary is deprecated for errors in general, because its meaning is unclear there,
// but for Accept there is no other method.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// startAccepted makes a session of an accepted connection. If optionsSet, its socket has the options already. The functions that it calls count
// refusals.
func (srv *Server) startAccepted(conn net.Conn, optionsSet bool) {
	if !optionsSet {
		srv.o.tcp().SetOn(conn)
	}
	p, ok := sockopt.Unwrap[proxied](conn)
	if !ok {
		_ = srv.run(newSession(srv, nil), conn)
		return
	}
	a, err := srv.addPending(func() { _ = p.Close() }, srv.o.MaxSessions)
	if err != nil {
		srv.refused(p.RemoteAddr(), err)
		_ = p.Close()
		return
	}
	go func() {
		defer srv.removePending(a)
		srv.awaitProxyHeader(conn, p)
	}()
}

// proxied is a connection that may begin with a PROXY header: a *transport.ProxyConn.
type proxied interface {
	net.Conn
	HandshakeContext(ctx context.Context) error
	Header() *transport.ProxyHeader
	Plain() (conn net.Conn, unread []byte, ok bool)
}

// awaitProxyHeader waits for the header of p, and makes a session of conn, which is p or a connection around it.
func (srv *Server) awaitProxyHeader(conn net.Conn, p proxied) {
	ctx := context.Background()
	if limit := srv.o.HandshakeTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := p.HandshakeContext(ctx); err != nil {
		srv.refused(p.RemoteAddr(), fmt.Errorf("session: PROXY header: %w", err))
		_ = p.Close()
		return
	}
	s := newSession(srv, nil)
	s.proxy = p.Header()
	if plain, unread, ok := p.Plain(); ok && conn == net.Conn(p) && len(unread) == 0 && srv.toLoop(s, plain) {
		srv.loops.setAddrs(s, p.LocalAddr(), p.RemoteAddr())
		_ = srv.begin(s)
		return
	}
	_ = srv.run(s, conn)
}

// pendingConn is a connection that has no session yet: its PROXY header is being read, or it is being dialed.
type pendingConn struct{ cancel func() }

// addPending adds a pendingConn. The function cancel ends it early, and must not block. If there is no error, the caller calls removePending.
func (srv *Server) addPending(cancel func(), limit int) (*pendingConn, error) {
	a := &pendingConn{cancel: cancel}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return nil, srv.closedErr
	}
	if n := len(srv.live) + len(srv.pending); n >= limit {
		return nil, fmt.Errorf("%w: %d", ErrLimit, n)
	}
	srv.pending[a] = struct{}{}
	srv.pendingDone.Add(1)
	return a, nil
}

func (srv *Server) removePending(a *pendingConn) {
	srv.mu.Lock()
	delete(srv.pending, a)
	srv.mu.Unlock()
	srv.pendingDone.Done()
}
