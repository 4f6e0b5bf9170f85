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

	"github.com/sluice-push/sluice/internal/proxydial"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Client dials WebSocket connections and runs them, with the same engines, queues and limits as a [Server]. All methods may be called
// concurrently.
type Client struct {
	*engine
	sessions *session.Client
	dialer   proxydial.Dialer
}

// NewClient returns a client. If the handler is nil or its Pull is true, the caller fetches messages: see [Conn.Receive]. Nil options mean the
// defaults. NewClient panics if the handler has both Pull and Message.
func NewClient(h *Handler, o *Options) *Client {
	if h == nil {
		h = &Handler{Pull: true}
	}
	e := newEngine(h, o)
	c := &Client{engine: e}
	s := e.o.session()
	c.dialer = proxydial.Dialer{TLS: s.TLS, Proxy: e.o.Proxy, ProxyTLS: e.o.ProxyTLS, Dial: e.o.DialContext}
	c.sessions = session.NewClient(nil, nil, s)
	return c
}

// Dial makes one connection whose messages the caller fetches: see [Conn.Receive]. The connection has a client of its own, which ends with it. A
// goroutine runs the connection unless the options ask for an event loop. For many connections a [Client] is cheaper.
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

// Dial connects to an address, "ws://host:port/path?query" or "wss://…", and performs the opening handshake. Both together take no longer than
// ctx and Options.Session.HandshakeTimeout allow. The end of ctx after that does not end the connection. Options.Session.TLS configures TLS.
//
// The error names the step that failed. If the server answers anything but an acceptance, the error is a *wire.HandshakeError with the status
// and the header. Dial does not follow redirects, but a caller can with that header.
func (c *Client) Dial(ctx context.Context, address string) (*Conn, error) {
	return c.dial(ctx, address, nil)
}

// DialSession is [Client.Dial] for a caller that wraps the session's handler, such as a reconnect.Pool with its option DialSession. The function
// wrap gets the client's session handler, whose messages are those of package session. It returns the handler that the session gets, which must
// call the one that wrap was given. A nil wrap changes nothing. The session's Value is the *Conn.
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
		return nil, fmt.Errorf("websocket: dial: malformed URL: %w", err)
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

// request builds the handshake request from the options, Options.RequestHeader and the cookie jar.
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

// defaultHandshake is the default of session.Options.HandshakeTimeout.
const defaultHandshake = 10 * time.Second

// handshake performs the opening handshake on conn. It returns the WebSocket connection and the settings with which its session begins.
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

// checked stores the response's cookies and calls Options.Accepted.
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

// shake sends the request and reads the response. It returns the bytes that came after the response.
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

// httpURL returns the URL with the scheme http or https, which a cookie jar expects.
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

// Conns iterates over the connections that are live when the iteration begins and whose handler's Open has been called. A connection may end
// while it is visited.
func (c *Client) Conns() iter.Seq[*Conn] { return conns(c.sessions.Sessions()) }

// Len returns the number of live connections.
func (c *Client) Len() int { return c.sessions.Len() }

// Stats returns the counters of all connections.
func (c *Client) Stats() session.Stats { return c.sessions.Stats() }

// Close ends all connections at once, without a close frame, and makes every later Dial fail. It waits until the last connection has ended,
// except when a handler calls it. Close always returns nil.
func (c *Client) Close() error { return c.sessions.Close() }

// Shutdown calls the handler's Drain for every connection, or closes the connection with code 1001 if Drain is nil. It waits until all have
// ended. If ctx is done first, Shutdown ends the remaining connections as Close does and returns the context's error. Every later Dial fails.
func (c *Client) Shutdown(ctx context.Context) error { return c.sessions.Shutdown(ctx) }
