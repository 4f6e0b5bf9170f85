// Package wsdial leads from a URL to a connection on which the opening handshake of WebSocket may begin (RFC 6455 §4.1, items 2 to 5):
// to the server or to a proxy before it, through the proxy, and through TLS if the URL asks for it.
//
//	dial ──► server ──────────────────────────────────────────────► TLS for wss ──► ready
//	dial ──► proxy ──► TLS for https ──► CONNECT, or SOCKS5 ──► server ──► TLS for wss ──► ready
//
// Whatever step fails closes the connection, and the [Error] names the hop and the step. When the context ends, so does the step that is
// being made: the connection is closed under it. No goroutine is started for that, and no deadline is set.
package wsdial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
)

// Dialer makes connections. The zero value connects directly. Its fields must not change while Connect is running; any number of
// calls may run at the same time.
type Dialer struct {
	// Dial makes the connection to the proxy or, without one, to the server. It has to return when the context ends, and the address is
	// a host and a port. Nil: that of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS is for servers of wss and https. Of the copy that is used ServerName, if it is empty, is the host in the URL, and NextProtos
	// is HTTP/1.1 alone, the only version in which the handshake is made here. Nil: the defaults of crypto/tls.
	TLS *tls.Config

	// ProxyTLS is for proxies of https, in the same way.
	ProxyTLS *tls.Config

	// Proxy chooses the proxy for a URL, nil for none. The scheme of the URL that is handed over is http for ws, and https for wss, which
	// is what http.ProxyFromEnvironment, given a request with that URL, knows. Nil: there is no proxy.
	//
	// The proxy's scheme is http or https, for HTTP proxies, which are asked by CONNECT for both ws and wss; or socks5 or socks5h, both of
	// which leave it to the proxy to look up the server's name. A user in its URL is sent to the proxy, for HTTP as Basic
	// credentials (RFC 7617).
	Proxy func(*url.URL) (*url.URL, error)
}

// Error is a connection that could not be made.
type Error struct {
	Hop     string // "server" or "proxy": who is to blame
	Address string // of that hop, as host:port
	Step    string // what failed: "dial", "TLS", "CONNECT", "SOCKS5"
	Err     error  // why; the context's error if that has ended
}

// Error names the hop, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("websocket: connect: %s %s: %s: %v", e.Hop, e.Address, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Connect makes a connection to the server that u names: its scheme is ws or wss, or http or https with the same meaning, and of the
// rest only host and port are used. For ws it is the very connection that Dial returned, also behind a proxy of http or SOCKS5; for wss
// a *tls.Conn whose handshake is complete. The caller has to close it. Time is bounded by ctx alone, which may end afterwards.
//
// The error is an *[Error]; or another one if u, or what Proxy returned, cannot be used.
func (d *Dialer) Connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	server, err := serverOf(u)
	if err != nil {
		return nil, fmt.Errorf("websocket: connect: %w", err)
	}
	proxy, err := d.proxyFor(u)
	if err != nil {
		return nil, fmt.Errorf("websocket: connect: %w", err)
	}
	first := server
	if proxy != nil {
		first = proxy
	}
	dial := d.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", first.address())
	if err != nil {
		if cause := ctx.Err(); cause != nil {
			err = cause
		}
		return nil, first.failed("dial", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // its error is that of the step
	ready, failure := d.advance(conn, proxy, server)
	if !stop() {
		if failure == nil {
			failure = first.failed("dial", nil)
		}
		failure.Err = ctx.Err()
	}
	if failure != nil {
		_ = conn.Close() // the cause is failure
		return nil, failure
	}
	return ready, nil
}

// advance goes from a connection to the first hop to one on which the server's handshake may begin.
func (d *Dialer) advance(conn net.Conn, proxy, server *hop) (net.Conn, *Error) {
	var err error
	if proxy != nil {
		if proxy.tls {
			if conn, err = startTLS(conn, d.ProxyTLS, proxy.host); err != nil {
				return nil, proxy.failed("TLS", err)
			}
		}
		if proxy.socks {
			if err := socks5(conn, proxy.user, server); err != nil {
				return nil, proxy.failed("SOCKS5", err)
			}
		} else if err := connect(conn, proxy.user, server); err != nil {
			return nil, proxy.failed("CONNECT", err)
		}
	}
	if server.tls {
		if conn, err = startTLS(conn, d.TLS, server.host); err != nil {
			return nil, server.failed("TLS", err)
		}
	}
	return conn, nil
}

// proxyFor asks Proxy.
func (d *Dialer) proxyFor(u *url.URL) (*hop, error) {
	if d.Proxy == nil {
		return nil, nil
	}
	asked := *u
	switch u.Scheme {
	case "ws":
		asked.Scheme = "http"
	case "wss":
		asked.Scheme = "https"
	}
	proxy, err := d.Proxy(&asked)
	if err != nil {
		return nil, fmt.Errorf("choose a proxy: %w", err)
	}
	if proxy == nil {
		return nil, nil
	}
	return proxyOf(proxy)
}

// startTLS makes the handshake of TLS over conn as a client that wants to reach host.
func startTLS(conn net.Conn, config *tls.Config, host string) (net.Conn, error) {
	config = config.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config.ServerName = withoutZone(host)
	}
	config.NextProtos = []string{"http/1.1"}
	over := tls.Client(conn, config)
	if err := over.Handshake(); err != nil {
		return nil, err
	}
	return over, nil
}
