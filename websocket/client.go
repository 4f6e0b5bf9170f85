package websocket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-push/sluice/internal/wsdial"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Client makes WebSocket connections and runs them, with everything that a Server has. All methods may be called concurrently.
type Client struct {
	*engine
	sessions *session.Client
	dialer   wsdial.Dialer
}

// NewClient makes a client. With a nil handler, and with one that says Pull, messages are asked for: see [Conn.Receive]. Nil options are
// all defaults. It panics if the handler has both Pull and Message.
func NewClient(h *Handler, o *Options) *Client {
	if h == nil {
		h = &Handler{Pull: true}
	}
	e := newEngine(h, o)
	c := &Client{engine: e}
	s := e.o.session()
	c.dialer = wsdial.Dialer{TLS: s.TLS, Proxy: e.o.Proxy, ProxyTLS: e.o.ProxyTLS, Dial: e.o.DialContext}
	c.sessions = session.NewClient(nil, nil, s)
	return c
}

// Dial makes one connection whose messages are asked for: see [Conn.Receive]. It is a client of its own, which ends with the connection,
// and is run by a goroutine unless the options ask for a loop: for many connections a [Client] is cheaper.
func Dial(ctx context.Context, address string, o *Options) (*Conn, error) {
	var own Options
	if o != nil {
		own = *o
	}
	if own.Session.Engine == session.EngineAuto {
		own.Session.Engine = session.EngineGoroutine
	}
	var client *Client
	client = NewClient(&Handler{Pull: true, Close: func(*Conn, *session.CloseInfo) { _ = client.Close() }}, &own)
	c, err := client.Dial(ctx, address)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return c, nil
}

// Dial connects to an address, "ws://host:port/path?query" or "wss://…", and makes the handshake. All of it takes no longer than ctx and
// Options.Session.HandshakeTimeout allow; the connection does not end with ctx. Options.Session.TLS says how TLS is spoken. The errors
// say which step failed; a server that answered something else is a *wire.HandshakeError, with the status and the header, so that a
// caller can follow a redirect, which Dial does not.
func (c *Client) Dial(ctx context.Context, address string) (*Conn, error) {
	return c.dial(ctx, address, nil)
}

// DialSession is [Client.Dial] for who runs the connection's session with a handler around the client's own: a reconnect.Pool, whose
// option of this name it is. wrap is given the handler of the session, for which messages are those of package session, and returns the one that the
// session gets, which has to call it. A nil wrap changes nothing. The session's Value is the *Conn.
func (c *Client) DialSession(
	ctx context.Context, address string, wrap func(*session.Handler) *session.Handler,
) (*session.Session, error) {
	conn, err := c.dial(ctx, address, wrap)
	if err != nil {
		return nil, err
	}
	return conn.Session(), nil
}

func (c *Client) dial(ctx context.Context, address string, wrap func(*session.Handler) *session.Handler) (*Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the URL, which may have a password in it
		}
		return nil, fmt.Errorf("websocket: dial: the URL cannot be read: %w", err)
	}
	limit := c.o.Session.HandshakeTimeout
	if limit == 0 {
		limit = defaultHandshake
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	h, err := c.request(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("websocket: dial: %w", err)
	}
	conn, err := c.dialer.Connect(ctx, u)
	if err != nil {
		return nil, err
	}
	made, at, err := c.handshake(ctx, u, conn, h)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("websocket: dial: %w", err)
	}
	if wrap != nil {
		at.Handler = wrap(at.Handler)
	}
	if _, err := c.sessions.ServeConn(conn, at); err != nil {
		return nil, fmt.Errorf("websocket: dial: %w", err)
	}
	return made, nil
}

// request prepares the handshake.
func (c *Client) request(ctx context.Context, u *url.URL) (*wire.ClientHandshake, error) {
	header := c.o.Header.Clone()
	if c.o.RequestHeader != nil {
		more, err := c.o.RequestHeader(ctx, u)
		if err != nil {
			return nil, err
		}
		if header == nil {
			header = make(http.Header, len(more))
		}
		maps.Copy(header, more)
	}
	if c.o.Jar != nil {
		header = withCookies(header, c.o.Jar.Cookies(httpURL(u)))
	}
	return wire.NewClientHandshake(u, &wire.ClientOptions{
		Subprotocols: c.o.Subprotocols, Header: header, Extensions: c.e.Offer(), Origin: c.o.Origin, Host: c.o.Host,
		MaxHeaderBytes: c.o.MaxHeaderBytes, MaxHeaderLines: c.o.MaxHeaderLines,
	})
}

// defaultHandshake is that of package session.
const defaultHandshake = 10 * time.Second

// handshake makes a WebSocket connection of one that was made, and says how its session begins.
func (c *Client) handshake(ctx context.Context, u *url.URL, conn net.Conn, h *wire.ClientHandshake) (*Conn, *session.Attach, error) {
	unread, err := shake(ctx, conn, h)
	if err == nil {
		err = c.checked(u, h.Response())
	}
	made := c.newConn()
	if err == nil {
		err = c.e.Client(&made.codec, h.Response())
	}
	if err != nil {
		return nil, nil, err
	}
	at := c.attach(made, nil)
	at.Initial = unread
	return made, at, nil
}

// checked takes note of what else the server said.
func (c *Client) checked(u *url.URL, r *ClientResponse) error {
	if c.o.Jar != nil {
		if cookies := (&http.Response{Header: r.Header}).Cookies(); len(cookies) > 0 {
			c.o.Jar.SetCookies(httpURL(u), cookies)
		}
	}
	if c.o.Accepted != nil {
		return c.o.Accepted(r)
	}
	return nil
}

// shake sends the request and reads the response. It returns what came behind it.
func shake(ctx context.Context, conn net.Conn, h *wire.ClientHandshake) (unread []byte, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && ctx.Err() != nil {
			err = ctx.Err()
			return
		}
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
	}()
	if _, err := conn.Write(h.AppendRequest(nil)); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, readErr := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		used, err := h.Decode(buf)
		switch {
		case err != nil:
			return nil, err
		case used > 0:
			return buf[used:], nil
		case readErr != nil:
			return nil, fmt.Errorf("the connection ended before the response: %w", readErr)
		}
	}
}

// httpURL is the URL as cookies know it.
func httpURL(u *url.URL) *url.URL {
	http := *u
	switch u.Scheme {
	case "ws":
		http.Scheme = "http"
	case "wss":
		http.Scheme = "https"
	}
	return &http
}

// withCookies adds cookies to a header.
func withCookies(header http.Header, cookies []*http.Cookie) http.Header {
	r := &http.Request{Header: header}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	return r.Header
}

// Conns visits the connections that are live when it begins: Open is being called, or was. One may end while it is being visited.
func (c *Client) Conns() iter.Seq[*Conn] { return conns(c.sessions.Sessions()) }

// Len returns the number of live connections.
func (c *Client) Len() int { return c.sessions.Len() }

// Stats returns the counters.
func (c *Client) Stats() session.Stats { return c.sessions.Stats() }

// Close ends all connections at once, without a word to the peers, and whatever is being dialed later fails. It waits until the last one
// has ended; called from a handler it does not wait. It always returns nil.
func (c *Client) Close() error { return c.sessions.Close() }

// Shutdown calls Drain of the handler for every connection, or closes it with code 1001, and waits until all have ended. When ctx is done
// first it ends the rest as Close does and returns the context's error. Nothing can be dialed any more.
func (c *Client) Shutdown(ctx context.Context) error { return c.sessions.Shutdown(ctx) }
