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

// Options configure a server or a client. A nil *Options and the zero value mean the defaults. The struct is copied; slices, maps and pointers
// in it must not change afterwards.
type Options struct {
	// MaxMessage is the size in bytes of the largest message accepted, after inflating. A larger one ends the connection with code 1009 as soon
	// as its length is known. Zero: 64 KiB. Negative: no limit.
	MaxMessage int
	// MaxFragments is the largest number of frames that one message may have; more end the connection with code 1008. Zero: 1,024, and one more
	// for each 16 bytes of payload in the frames before, which bounds messages of tiny frames. Negative: no limit.
	MaxFragments int
	// Compression configures compression, which is used if the peer supports it. Nil: no compression.
	Compression *Compression
	// Subprotocols are the application's protocols (RFC 6455 §1.9), best first. A server chooses the first that the client offers, or none.
	Subprotocols []string
	// Header is added to the server's response, or to the client's request: cookies and authorization, for example.
	Header http.Header

	// Ping is the interval at which each connection is pinged and the handler's Tick is called. A connection from which nothing arrives for
	// twice that time ends with session.ErrTimeout. Zero: no pings, and Session.TickInterval and Session.IdleTimeout apply.
	Ping time.Duration
	// NoPong turns automatic pongs off. The user answers pings with [Conn.Pong].
	NoPong bool
	// SkipUTF8 accepts text that is not UTF-8, against RFC 6455 §8.1.
	SkipUTF8 bool

	// Session holds the settings for time, queues, limits on connections, engines, TLS and sockets: see session.Options. Its MaxMessage is
	// computed from the limits here. Its FirstTimeout bounds a server's whole handshake.
	Session session.Options

	// MaxHeaderBytes and MaxHeaderLines bound the peer's half of the handshake. Zero: 8 KiB and 100 lines. Negative: no limit.
	MaxHeaderBytes int
	MaxHeaderLines int

	// For servers only: they decide which web pages may connect. See wire.Options.
	Origins     []string
	CheckOrigin func(*Request) bool
	Accept      func(*Request, *Response) error

	// For clients only.

	// Origin is the web page on whose behalf the connection is made, such as "https://example.org". A server that checks origins treats the
	// client as a page of that site. Empty: none is sent.
	Origin string
	// Host is the value of the header field Host. Empty: the URL's host.
	Host string
	// RequestHeader, if not nil, returns additional fields for the request of each Dial, such as a token that expires. They replace fields of
	// the same name in Header. An error, or the end of ctx, ends that Dial. Several goroutines may call it at once.
	RequestHeader func(ctx context.Context, u *url.URL) (http.Header, error)
	// Proxy returns the proxy for a URL, or nil for none. The URL has the scheme http or https instead of ws or wss. [ProxyFromEnvironment] is
	// such a function. A proxy speaks HTTP CONNECT ("http", "https") or SOCKS5 ("socks5", "socks5h"). Nil: no proxy.
	Proxy func(*url.URL) (*url.URL, error)
	// ProxyTLS configures TLS to proxies with the scheme https. Nil: the defaults of crypto/tls.
	ProxyTLS *tls.Config
	// DialContext connects to the proxy or, without one, to the server. Nil: the method of a zero net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Jar supplies the cookies of the request and stores those of the response. Nil: no cookies.
	Jar http.CookieJar
	// Accepted, if not nil, gets the server's response when it has accepted the handshake. An error closes the connection and fails the Dial.
	Accepted func(*ClientResponse) error
}

// endpoint returns the options for the state machine of package wire.
func (o *Options) endpoint(h *Handler) *wire.Endpoint {
	return wire.NewEndpoint(&wire.Options{
		MaxMessage: o.MaxMessage, MaxFragments: o.MaxFragments, Compression: o.Compression, Subprotocols: o.Subprotocols,
		Header: o.Header, NoPong: o.NoPong, SkipUTF8: o.SkipUTF8,
		Origins: o.Origins, CheckOrigin: o.CheckOrigin, Accept: o.Accept, MaxHeaderBytes: o.MaxHeaderBytes, MaxHeaderLines: o.MaxHeaderLines,
		Pieces: h.Pull, Control: h.Ping != nil || h.Pong != nil,
	})
}

// The defaults of package wire for limits that sessionLimit needs.
const (
	defaultMaxMessage     = 64 << 10
	defaultMaxHeaderBytes = 8 << 10
)

// session returns the options for package session.
func (o *Options) session() *session.Options {
	s := o.Session
	s.MaxMessage = max(sessionLimit(o.MaxMessage, defaultMaxMessage), sessionLimit(o.MaxHeaderBytes, defaultMaxHeaderBytes))
	if o.Ping > 0 {
		s.TickInterval, s.IdleTimeout = o.Ping, 2*o.Ping
	}
	return &s
}

// sessionLimit returns the size up to which a session must buffer one message or request: a quarter more than n, and 256 bytes. The codec
// enforces n itself. The rest leaves room for a compressed frame that is larger than its message, the tag of a piece, and control frames.
func sessionLimit(n, byDefault int) int {
	if n == 0 {
		n = byDefault
	}
	if n < 0 || n > math.MaxInt/2 {
		return math.MaxInt / 2
	}
	return n + n/4 + 256
}
