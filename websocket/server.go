package websocket

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"

	"github.com/sluice-push/sluice/session"
)

// Server runs WebSocket connections: those that it accepts itself in Serve, and those that a net/http server accepted, for which it is
// an http.Handler. All methods may be called concurrently.
type Server struct {
	*engine
	sessions *session.Server
}

// NewServer makes a server. A nil handler handles nothing; nil options are all defaults. It panics if the handler has both Pull and
// Message.
func NewServer(h *Handler, o *Options) *Server {
	e := newEngine(h, o)
	return &Server{engine: e, sessions: session.NewServer(nil, e.accepting(), e.o.session())}
}

// accepting is what a session calls while the handshake is awaited.
func (e *engine) accepting() *session.Handler {
	return &session.Handler{
		Open: func(s *session.Session) error {
			c := e.newConn()
			c.s.Store(s)
			e.e.Handshake(&c.codec)
			s.SetValue(c)
			s.SetCodec(c)
			return nil
		},
		Message: func(s *session.Session, _ []byte) { // the handshake is done
			c := connOf(s)
			_ = e.open(c, c.codec.Request()) // an error has ended the session
			c.codec.Release()
		},
	}
}

// Serve accepts connections, on any path, and reads the requests itself, so that no memory of net/http is kept. It blocks until the
// server is closed, when it returns session.ErrServerClosed, or until accepting fails for good. The listener is closed when it returns.
// See session.Server.Serve about listeners.
func (srv *Server) Serve(ln net.Listener) error { return srv.sessions.Serve(ln) }

// ServeHTTP makes a connection of a request to a net/http server and returns. Refused requests are answered.
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { _, _ = srv.Upgrade(w, r) }

// Upgrade makes a connection of a request to a net/http server. The handler of net/http may return at once: the connection is the
// server's then, which needs neither the goroutine nor the buffers it had there. Open of the handler is called, perhaps before Upgrade
// returns; if it refuses, that is no error here. With a handler that says Pull the connection is the caller's to read.
//
// If the request is refused the client has been answered, and the error is a *[Refusal] for the log. Other errors are of the connection,
// which is closed then; session.ErrLimit and session.ErrServerClosed are among them.
func (srv *Server) Upgrade(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	c := srv.newConn()
	up, err := srv.e.Upgrade(&c.codec, w, r)
	if err != nil {
		return nil, err
	}
	at := srv.attach(c, up.Request)
	at.Initial = up.Unread
	if _, err := srv.sessions.ServeConn(up.Conn, at); err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	return c, nil
}

// attach is how a session begins whose handshake is done.
func (e *engine) attach(c *Conn, r *Request) *session.Attach {
	at := &session.Attach{Codec: c, Handler: e.serving, Value: c, Made: c.s.Store}
	if e.h.Open == nil { // which nobody has to wait for
		c.stage.Store(opened)
		return at
	}
	h := *e.serving
	h.Open = func(*session.Session) error { return e.open(c, r) }
	at.Handler = &h
	return at
}

// Conns visits the connections that are live when it begins and whose handshake is done: Open is being called, or was. One may end while it
// is being visited.
func (srv *Server) Conns() iter.Seq[*Conn] { return conns(srv.sessions.Sessions()) }

// conns are the connections of sessions, as far as others may know of them.
func conns(sessions iter.Seq[*session.Session]) iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for s := range sessions {
			c, ok := s.Value().(*Conn)
			if ok && c.stage.Load() != shaking && !yield(c) {
				return
			}
		}
	}
}

// Len returns the number of live connections, also those whose handshake is not done.
func (srv *Server) Len() int { return srv.sessions.Len() }

// Stats returns the counters. Each handshake that Serve saw is one message in them.
func (srv *Server) Stats() session.Stats { return srv.sessions.Stats() }

// Close stops listening and ends all connections at once, without a word to the peers. It waits until the last one has ended; called
// from a handler it does not wait. It always returns nil.
func (srv *Server) Close() error { return srv.sessions.Close() }

// Shutdown stops listening, calls Drain of the handler for every connection, or closes it with code 1001, and waits until all have
// ended. When ctx is done first it ends the rest as Close does and returns the context's error.
func (srv *Server) Shutdown(ctx context.Context) error { return srv.sessions.Shutdown(ctx) }
