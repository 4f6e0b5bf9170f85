package websocket

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Options are the settings of a server or a client. A nil *Options and the zero value mean the defaults. The struct is copied when it is
// handed over; what it refers to must not change afterwards.
type Options struct {
	// MaxMessage is the largest message accepted, in bytes, inflated if it was compressed. A larger one ends the connection with code
	// 1009 as soon as its length is known. Zero: 64 KiB. Negative: no limit.
	MaxMessage int
	// MaxFragments is the largest number of frames a message may come in; more end the connection with code 1008. Zero: 1,024, and one more
	// for each 16 bytes of payload that the frames before have brought: it is tiny frames that are bounded.
	// Negative: no limit.
	MaxFragments int
	// Compression is how messages are compressed, if the peer can do it too. Nil: they are not.
	Compression *Compression
	// Subprotocols are the application's protocols (RFC 6455 §1.9), best first. A server agrees on the first that the client offers, or
	// on none.
	Subprotocols []string
	// Header is added to the server's response, or to the client's request: cookies and authorization, for example.
	Header http.Header

	// Ping is how often each connection is pinged, and Tick of the handler called. A connection from which nothing came for twice that
	// time ends with session.ErrTimeout. Zero: never; then Session has both times.
	Ping time.Duration
	// NoPong leaves it to the user to answer pings, with [Conn.Pong].
	NoPong bool
	// SkipUTF8 accepts text that is not UTF-8, against RFC 6455 §8.1.
	SkipUTF8 bool

	// Session is everything about time, queues, limits on connections, engines, TLS and sockets: see session.Options. Its MaxMessage
	// is set from what is here. FirstTimeout is what the whole handshake may take.
	Session session.Options

	// MaxHeaderBytes and MaxHeaderLines bound the peer's part of the handshake. Zero: 8 KiB and 100. Negative: no limit.
	MaxHeaderBytes int
	MaxHeaderLines int

	// Of servers only: which pages may connect. See wire.Options.
	Origins     []string
	CheckOrigin func(*Request) bool
	Accept      func(*Request, *Response) error

	// Of clients only.

	// Origin is the page on whose behalf a connection is made, as "https://example.org": servers that look at it take a client for a page of
	// that. Empty: none is sent.
	Origin string
	// Host is what the field Host says instead of the URL's host. Empty: that.
	Host string
	// RequestHeader, when not nil, returns more of the header of each request, before which it is called: a token that expires, for example. It
	// wins over Header. An error, or the end of ctx, is the end of that Dial. It may be called by several goroutines at once.
	RequestHeader func(ctx context.Context, u *url.URL) (http.Header, error)
	// Proxy returns the proxy for a URL, whose scheme is http or https, or nil for none; http.ProxyFromEnvironment does it with a
	// request, [ProxyFromEnvironment] with a URL. Proxies are of HTTP ("http", "https": CONNECT) or SOCKS5 ("socks5", "socks5h"). Nil: none.
	Proxy func(*url.URL) (*url.URL, error)
	// ProxyTLS is for proxies of https. Nil: the defaults of crypto/tls.
	ProxyTLS *tls.Config
	// DialContext makes the connection to the proxy or, without one, to the server. Nil: that of a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Jar has the cookies for the request, and takes those of the response. Nil: none.
	Jar http.CookieJar
	// Accepted, when not nil, sees the server's response to a handshake that was accepted. An error gives the connection up.
	Accepted func(*ClientResponse) error
}

// endpoint is what the state machine needs of the options.
func (o *Options) endpoint(h *Handler) *wire.Endpoint {
	return wire.NewEndpoint(&wire.Options{
		MaxMessage: o.MaxMessage, MaxFragments: o.MaxFragments, Compression: o.Compression, Subprotocols: o.Subprotocols,
		Header: o.Header, NoPong: o.NoPong, SkipUTF8: o.SkipUTF8,
		Origins: o.Origins, CheckOrigin: o.CheckOrigin, Accept: o.Accept, MaxHeaderBytes: o.MaxHeaderBytes, MaxHeaderLines: o.MaxHeaderLines,
		Pieces: h.Pull, Control: h.Ping != nil || h.Pong != nil,
	})
}

// The defaults of package wire.
const (
	defaultMaxMessage     = 64 << 10
	defaultMaxHeaderBytes = 8 << 10
)

// session is what package session needs of the options.
func (o *Options) session() *session.Options {
	s := o.Session
	s.MaxMessage = max(sessionLimit(o.MaxMessage, defaultMaxMessage), sessionLimit(o.MaxHeaderBytes, defaultMaxHeaderBytes))
	if o.Ping > 0 {
		s.TickInterval, s.IdleTimeout = o.Ping, 2*o.Ping
	}
	return &s
}

// sessionLimit is how much of a message, or of a request, a session has to take: a quarter more than what is allowed, which the codec
// sees to, since a compressed frame may be a little larger than what it stands for, a piece has a tag, and control frames have a size of
// their own.
func sessionLimit(n, byDefault int) int {
	if n == 0 {
		n = byDefault
	}
	if n < 0 || n > math.MaxInt/2 {
		return math.MaxInt / 2
	}
	return n + n/4 + 256
}
