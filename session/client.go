package session

import (
	"context"
	"fmt"
	"iter"
	"net"

	"github.com/sluice-push/sluice/transport"
)

// Client makes connections and runs a session on each, with everything that a [Server] has: engine, limits, time-outs, one handler or
// messages that are received. All methods may be called concurrently.
type Client struct {
	srv  *Server
	dial transport.Options
}

// NewClient makes a client whose sessions begin with codec and handler, as those of a server do. With a nil handler their messages are
// received: see [Session.Receive]. Options.TLS makes Dial speak TLS.
func NewClient(codec Codec, h *Handler, o *Options) *Client {
	if h == nil {
		h = &Handler{Pull: true}
	}
	var own Options
	if o != nil {
		own = *o
	}
	own.TLS = nil // which would be the other end's
	c := &Client{srv: NewServer(codec, h, &own)}
	c.srv.shut = ErrClientClosed
	c.dial = *c.srv.o.socket()
	if o != nil {
		c.dial.TLS = o.TLS
	}
	return c
}

// Dial connects to an address and runs a session on the connection. Networks are "tcp", "tcp4", "tcp6" and "unix", and for datagrams
// "udp", "udp4" and "udp6": then nothing is sent yet, and the package comment says what differs. Connecting, with the TLS
// handshake if there is one, takes no longer than ctx and Options.HandshakeTimeout allow; the session does not end with ctx. Errors are
// those of [transport.Dial], [ErrLimit], and [ErrClientClosed], also when Close is called meanwhile.
func (c *Client) Dial(ctx context.Context, network, address string) (*Session, error) {
	return c.DialWith(ctx, network, address, nil)
}

// DialWith is [Client.Dial] for a session that differs from the others: see [Attach]. A nil Attach makes it one like them. Initial
// bytes are as if the peer had sent them, after the TLS handshake; the error is [ErrTooLarge] if they are more than any message may be.
func (c *Client) DialWith(ctx context.Context, network, address string, at *Attach) (*Session, error) {
	srv := c.srv
	if at == nil {
		at = &Attach{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := srv.await(cancel, srv.o.MaxSessions)
	if err != nil {
		return nil, err
	}
	defer srv.over(a)
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

// dialError is the error of a connection that could not be made.
func (c *Client) dialError(err error) error {
	if c.srv.isClosed() {
		return ErrClientClosed
	}
	return fmt.Errorf("session: %w", err)
}

// ServeConn runs a session on a connection that was made elsewhere. See [Server.ServeConn], whose errors it has, with [ErrClientClosed]
// instead of ErrServerClosed.
func (c *Client) ServeConn(conn net.Conn, at *Attach) (*Session, error) {
	if at == nil {
		at = &Attach{}
	}
	return c.srv.ServeConn(conn, at)
}

// Close ends all sessions at once, ByLocal with [ErrClientClosed], and whatever is being dialed. It waits until the last one has ended;
// called from a handler it does not wait. It always returns nil.
func (c *Client) Close() error { return c.srv.Close() }

// Shutdown calls Drain of the handler for every session, or ends it gently if there is none, and waits until all have ended. When ctx is done first it closes the rest as
// Close does and returns the context's error. Nothing can be dialed any more. Called from a handler it does not wait.
func (c *Client) Shutdown(ctx context.Context) error { return c.srv.Shutdown(ctx) }

// Sessions visits the sessions that are live when it begins. A session may end while it is being visited.
func (c *Client) Sessions() iter.Seq[*Session] { return c.srv.Sessions() }

// Len returns the number of live sessions.
func (c *Client) Len() int { return c.srv.Len() }

// Stats returns the client's counters. They are not read at one instant.
func (c *Client) Stats() Stats { return c.srv.Stats() }

// Dial makes one connection whose messages are received: see [Client.Dial] and [Session.Receive]. It is a client of its own, which is
// closed when the session has ended. The session is run by a goroutine unless the options ask for a loop: for many connections a
// [Client] is cheaper.
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
