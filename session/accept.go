package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/transport"
)

// The pause after an error of Accept that may pass.
const (
	acceptPause    = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Serve accepts connections and runs a session on each. It blocks until the server is closed, when it returns [ErrServerClosed], or
// until accepting fails for good. The listener is closed when it returns. Several calls with different listeners are fine.
//
// Plain TCP and Unix listeners of package net survive a lack of descriptors as a [transport.Listener] does, and with event loops no
// net.Conn is made for their connections. A *transport.Listener is used as it is, with its own socket options instead of the
// server's. With any other, errors that may pass are logged, and it tries again. When a connection comes with a PROXY header, it is a
// session only after that, under the address that the header tells.
func (srv *Server) Serve(ln net.Listener) error {
	own := srv.wrap(ln)
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		_ = own.Close()
		return srv.shut
	}
	srv.listeners[own]++
	srv.mu.Unlock()
	defer func() {
		_ = own.Close() // as long as loops that it may have to leave are there
		srv.mu.Lock()
		if srv.listeners[own]--; srv.listeners[own] == 0 {
			delete(srv.listeners, own)
			srv.shed += shedBy(own)
		}
		srv.mu.Unlock()
	}()

	l, set := own.(*transport.Listener)
	if set {
		if accept := srv.loops.acceptBare(srv, l); accept != nil {
			return srv.acceptAll(accept)
		}
	}
	return srv.acceptAll(func() error {
		conn, err := own.Accept()
		if err == nil {
			srv.arrive(conn, set)
		}
		return err
	})
}

// wrap makes a transport.Listener of a listener of package net. Any other, and one for which there is no descriptor, stays as it is.
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
			return srv.shut
		case !temporary(err):
			return fmt.Errorf("session: accept: %w", err)
		default:
			srv.pause("session: accepting failed, will try again", err, pause, nil)
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// pause tells of an error that may pass, and waits so long, or until something comes from bell.
func (srv *Server) pause(what string, err error, pause time.Duration, bell <-chan struct{}) {
	srv.o.Logger.Warn(what, "error", err, "pause", pause)
	if f := srv.observer.AcceptFailed; f != nil {
		f(err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-bell:
	case <-srv.closing:
	}
}

func (srv *Server) isClosed() bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.closed
}

// temporary reports whether an error of Accept may pass. The method it asks for is deprecated for errors in general, because
// nobody could say what it means there; for Accept it is still the only word.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// arrive makes a session of an accepted connection. With set its socket has the options already. Refusals are counted where they
// happen.
func (srv *Server) arrive(conn net.Conn, set bool) {
	if !set {
		srv.o.tcp().SetOn(conn)
	}
	p, ok := socket.Under[proxied](conn)
	if !ok {
		_ = srv.run(newSession(srv, nil), conn)
		return
	}
	a, err := srv.await(func() { _ = p.Close() }, srv.o.MaxSessions)
	if err != nil {
		srv.refused(p.RemoteAddr(), err)
		_ = p.Close()
		return
	}
	go func() {
		defer srv.over(a)
		srv.greetProxied(conn, p)
	}()
}

// proxied is a connection whose peer tells in a handshake for whom it speaks: a *transport.ProxyConn.
type proxied interface {
	net.Conn
	HandshakeContext(ctx context.Context) error
	Header() *transport.ProxyHeader
	Plain() (conn net.Conn, unread []byte, ok bool)
}

// greetProxied waits for the header of p, which is conn or under it, and makes a session of conn.
func (srv *Server) greetProxied(conn net.Conn, p proxied) {
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
	if plain, unread, ok := p.Plain(); ok && conn == net.Conn(p) && len(unread) == 0 && srv.sit(s, plain) {
		srv.loops.name(s, p.LocalAddr(), p.RemoteAddr())
		_ = srv.begin(s)
		return
	}
	_ = srv.run(s, conn)
}

// arrival is what may become a session: a connection whose header is being read, one that is being dialed.
type arrival struct{ cut func() }

// await notes an arrival; cut, which must not block, ends it early. Whoever gets no error calls over.
func (srv *Server) await(cut func(), limit int) (*arrival, error) {
	a := &arrival{cut: cut}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return nil, srv.shut
	}
	if n := len(srv.live) + len(srv.arriving); n >= limit {
		return nil, fmt.Errorf("%w: %d", ErrLimit, n)
	}
	srv.arriving[a] = struct{}{}
	srv.arrivals.Add(1)
	return a, nil
}

func (srv *Server) over(a *arrival) {
	srv.mu.Lock()
	delete(srv.arriving, a)
	srv.mu.Unlock()
	srv.arrivals.Done()
}
