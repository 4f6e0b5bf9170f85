package session

import (
	"context"
	"fmt"
	"iter"
	"net"

	"github.com/sluice-push/sluice/transport"
)

// Client makes connections and runs a session on each. It has all that a [Server] has: engine, limits, time-outs, and either one handler or
// messages that are received. All methods may be called concurrently.
type Client struct {
	srv  *Server
	dial transport.Options
}

// NewClient makes a client whose sessions begin with codec and handler. If the handler is nil, their messages are received: see
// [Session.Receive]. If Options.TLS is set, Dial speaks TLS.
func NewClient(codec Codec, h *Handler, o *Options) *Client {
	if h == nil {
		h = &Handler{Pull: true}
	}
	var own Options
	if o != nil {
		own = *o
	}
	own.TLS = nil // in the server, TLS would speak as the server's end
	c := &Client{srv: NewServer(codec, h, &own)}
	c.srv.closedErr = ErrClientClosed
	c.dial = *c.srv.o.socket()
	if o != nil {
		c.dial.TLS = o.TLS
	}
	return c
}

// Dial connects to an address and runs a session on the connection. Networks are "tcp", "tcp4", "tcp6" and "unix". The networks "udp", "udp4"
// and "udp6" are for datagrams: Dial sends nothing then, and the package comment lists the differences. Connecting and the TLS handshake take no
// longer than ctx and Options.HandshakeTimeout allow; the session does not end with ctx. The errors are those of [transport.Dial], [ErrLimit],
// and [ErrClientClosed], also if Close is called meanwhile.
func (c *Client) Dial(ctx context.Context, network, address string) (*Session, error) {
	return c.DialWith(ctx, network, address, nil)
}

// DialWith is [Client.Dial] for a session with settings of its own: see [Attach]. A nil Attach changes nothing. Initial bytes are handled as if
// the peer had sent them, after the TLS handshake. If they are longer than any message may be, the error is [ErrTooLarge].
func (c *Client) DialWith(ctx context.Context, network, address string, at *Attach) (*Session, error) {
	srv := c.srv
	if at == nil {
		at = &Attach{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := srv.addPending(cancel, srv.o.MaxSessions)
	if err != nil {
		return nil, err
	}
	defer srv.removePending(a)
	if limit := srv.o.HandshakeTimeout; limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if overPackets(network) {
		return c.dialPacket(ctx, network, address, at)
	}
	conn, err := transport.Dial(ctx, network, address, &c.dial)
	if err != nil {
		return nil, c.dialError(err)
	}
	return srv.attach(conn, at)
}

// dialError returns the error of Dial for a connection that could not be made.
func (c *Client) dialError(err error) error {
	if c.srv.isClosed() {
		return ErrClientClosed
	}
	return fmt.Errorf("session: %w", err)
}

// ServeConn runs a session on a connection that was made elsewhere: see [Server.ServeConn]. It has the same errors, but [ErrClientClosed]
// instead of ErrServerClosed.
func (c *Client) ServeConn(conn net.Conn, at *Attach) (*Session, error) {
	if at == nil {
		at = &Attach{}
	}
	return c.srv.ServeConn(conn, at)
}

// Close ends all sessions at once, ByLocal with [ErrClientClosed], and cancels all calls of Dial. It waits until the last session has ended; if
// a handler calls it, it does not wait. It always returns nil.
func (c *Client) Close() error { return c.srv.Close() }

// Shutdown calls Drain of the handler for every session, and waits until all sessions have ended. Without Drain, sessions end gently. If ctx is
// done first, Shutdown closes the remaining sessions as Close does, and returns the context's error. Nothing can be dialed any more. If a
// handler calls it, it does not wait.
func (c *Client) Shutdown(ctx context.Context) error { return c.srv.Shutdown(ctx) }

// Sessions iterates over the sessions that are live when the iteration begins. A session may end meanwhile.
func (c *Client) Sessions() iter.Seq[*Session] { return c.srv.Sessions() }

// Len returns the number of live sessions.
func (c *Client) Len() int { return c.srv.Len() }

// Stats returns the client's counters. They are not all read at the same instant.
func (c *Client) Stats() Stats { return c.srv.Stats() }

// Dial makes one connection whose messages are received: see [Client.Dial] and [Session.Receive]. It has a client of its own, which is closed
// when the session has ended. A goroutine runs the session unless the options ask for an event loop. For many connections a [Client] is cheaper.
func Dial(ctx context.Context, network, address string, codec Codec, o *Options) (*Session, error) {
	var own Options
	if o != nil {
		own = *o
	}
	if own.Engine == EngineAuto {
		own.Engine = EngineGoroutine
	}
	c := NewClient(codec, nil, &own)
	c.srv.single = true
	s, err := c.Dial(ctx, network, address)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}
