package session

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// The pause after an error of Accept that may pass, such as having no descriptor left.
const (
	acceptPause    = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Serve accepts connections and runs a session on each. It blocks until the server is closed, when it returns [ErrServerClosed], or
// until accepting fails for good; errors that may pass are logged, and it tries again. The listener is closed when it
// returns. A TLS listener is fine; so are several calls with different listeners.
func (srv *Server) Serve(ln net.Listener) error {
	defer ln.Close() //nolint:errcheck // a listener that cannot be closed is closed
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		return ErrServerClosed
	}
	srv.listeners[ln] = struct{}{}
	srv.mu.Unlock()
	defer func() {
		srv.mu.Lock()
		delete(srv.listeners, ln)
		srv.mu.Unlock()
	}()

	pause := acceptPause
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			pause = acceptPause
			_, _ = srv.ServeConn(conn, nil) // a refusal is counted there
		case srv.isClosed():
			return ErrServerClosed
		case !temporary(err):
			return fmt.Errorf("session: accept: %w", err)
		default:
			srv.o.Logger.Warn("session: accepting failed, will try again", "error", err, "pause", pause)
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-srv.closing:
				timer.Stop()
			}
			pause = min(2*pause, acceptPauseMax)
		}
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
