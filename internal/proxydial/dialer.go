// Package proxydial dials the server that a URL names, directly or through an HTTP or SOCKS5 proxy, and starts TLS if the URL asks for it. On
// the returned connection a WebSocket client can begin the opening handshake (RFC 6455 §4.1, items 2 to 5).
//
//	dial ──► server ──────────────────────────────────────────────► TLS for wss ──► ready
//	dial ──► proxy ──► TLS for https ──► CONNECT, or SOCKS5 ──► server ──► TLS for wss ──► ready
//
// If a step fails, the connection is closed, and the [Error] names the hop and the step. If the context ends, the connection is closed, and the
// current step fails. The package starts no goroutine for that before the context ends, and sets no deadline.
package proxydial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
)

// Dialer makes connections. The zero value connects directly. Its fields must not change while Connect is running. Any number of goroutines may
// call Connect at the same time.
type Dialer struct {
	// Dial makes the connection to the proxy or, without one, to the server. The address is a host and a port. Dial must return when the context
	// ends. Nil means the method DialContext of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS is the configuration for servers of wss and https. Connect uses a copy. In the copy an empty ServerName becomes the host of the URL,
	// and NextProtos becomes HTTP/1.1 alone, the only version in which the WebSocket handshake is made here. Nil means the defaults of
	// crypto/tls.
	TLS *tls.Config

	// ProxyTLS is the configuration for proxies of https, used in the same way.
	ProxyTLS *tls.Config

	// Proxy returns the proxy for a URL, or nil for none. The URL has the scheme http for ws, and https for wss, as http.ProxyFromEnvironment
	// expects in a request. A nil Proxy means no proxy.
	//
	// The proxy's scheme is http or https for HTTP proxies, which get a CONNECT request for both ws and wss. It is socks5 or socks5h for SOCKS5
	// proxies; with both the proxy resolves the server's name. If the proxy's URL has a user, it is sent to the proxy, for HTTP as Basic
	// credentials (RFC 7617).
	Proxy func(*url.URL) (*url.URL, error)
}

// Error says why a connection could not be made.
type Error struct {
	Hop     string // "server" or "proxy": the end where the step failed
	Address string // of that hop, as host:port
	Step    string // the step: "dial", "TLS", "CONNECT", "SOCKS5"
	Err     error  // the cause; the error of the context if that has ended
}

// Error returns a text with the hop, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("websocket: connect: %s %s: %s: %v", e.Hop, e.Address, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Connect makes a connection to the server that u names. The scheme of u is ws or wss, or http or https with the same meaning. Of the rest only
// host and port are used. For ws the result is the very connection that Dial returned, unless the proxy is one of https. For wss it is a
// *tls.Conn whose handshake is complete. The caller closes the connection. Only ctx bounds the time, and ctx may end after Connect has returned.
//
// The error is an *[Error], or another one if u or the result of Proxy cannot be used.
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
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the failed step reports the error
	ready, failure := d.advance(conn, proxy, server)
	if !stop() {
		if failure == nil {
			failure = first.failed("dial", nil)
		}
		failure.Err = ctx.Err()
	}
	if failure != nil {
		_ = conn.Close() // failure is the error to report
		return nil, failure
	}
	return ready, nil
}

// advance takes a connection to the first hop through all further steps, up to TLS with the server.
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

// proxyFor calls Proxy, and returns the proxy for u, or nil for none.
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

// startTLS makes a TLS handshake over conn as a client of host.
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
