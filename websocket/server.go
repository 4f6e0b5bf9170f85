package websocket

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"

	"github.com/sluice-push/sluice/session"
)

// Server runs WebSocket connections. It accepts connections itself in Serve, and as an http.Handler it takes over connections that a net/http
// server has accepted. All methods may be called concurrently.
type Server struct {
	*engine
	sessions *session.Server
}

// NewServer returns a server. A nil handler ignores all events; nil options mean the defaults. NewServer panics if the handler has both Pull and
// Message.
func NewServer(h *Handler, o *Options) *Server {
	e := newEngine(h, o)
	return &Server{engine: e, sessions: session.NewServer(nil, e.accepting(), e.o.session())}
}

// accepting returns the session handler of connections whose handshake is not done.
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

// Serve accepts connections from ln and reads the requests itself, on any path, so that no memory of net/http is kept. Serve blocks until the
// server is closed, and then returns session.ErrServerClosed, or until accepting fails for good. It closes the listener before it returns. See
// session.Server.Serve about listeners.
func (srv *Server) Serve(ln net.Listener) error { return srv.sessions.Serve(ln) }

// ServeHTTP turns a request to a net/http server into a WebSocket connection and returns. If it refuses the request, it answers it.
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { _, _ = srv.Upgrade(w, r) }

// Upgrade turns a request to a net/http server into a WebSocket connection of this server. The caller may return from its net/http handler at
// once: the connection needs neither that goroutine nor its buffers. The server calls the handler's Open, perhaps before Upgrade returns. An
// error of Open is not an error of Upgrade. With Handler.Pull, the caller of Upgrade fetches the messages.
//
// If Upgrade refuses the request, it has answered the client, and the error is a *[Refusal] for the log. After any other error the connection is
// closed; session.ErrLimit and session.ErrServerClosed are among these.
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

// attach returns the settings with which a session begins after the handshake.
func (e *engine) attach(c *Conn, r *Request) *session.Attach {
	at := &session.Attach{Codec: c, Handler: e.serving, Value: c, Made: c.s.Store}
	if e.h.Open == nil { // without Open the connection is open at once
		c.stage.Store(opened)
		return at
	}
	h := *e.serving
	h.Open = func(*session.Session) error { return e.open(c, r) }
	at.Handler = &h
	return at
}

// Conns iterates over the connections that are live when the iteration begins and whose handler's Open has been called. A connection may end
// while it is visited.
func (srv *Server) Conns() iter.Seq[*Conn] { return conns(srv.sessions.Sessions()) }

// conns yields the connections of the sessions whose handshake is done.
func conns(sessions iter.Seq[*session.Session]) iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for s := range sessions {
			c, ok := s.Value().(*Conn)
			if ok && c.stage.Load() != handshaking && !yield(c) {
				return
			}
		}
	}
}

// Len returns the number of live connections, including those whose handshake is not done.
func (srv *Server) Len() int { return srv.sessions.Len() }

// Stats returns the counters of all connections. Each handshake in Serve counts as one received message.
func (srv *Server) Stats() session.Stats { return srv.sessions.Stats() }

// Close stops listening and ends all connections at once, without a close frame. It waits until the last connection has ended, except when a
// handler calls it. Close always returns nil.
func (srv *Server) Close() error { return srv.sessions.Close() }

// Shutdown stops listening and calls the handler's Drain for every connection, or closes the connection with code 1001 if Drain is nil. It waits
// until all have ended. If ctx is done first, Shutdown ends the remaining connections as Close does and returns the context's error.
func (srv *Server) Shutdown(ctx context.Context) error { return srv.sessions.Shutdown(ctx) }
