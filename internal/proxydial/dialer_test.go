package proxydial_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-push/sluice/internal/proxydial"
)

// use checks that an echo server is at the other end.
func use(t *testing.T, conn net.Conn) {
	t.Helper()
	const hello = "hello, whoever is there"
	got := make([]byte, len(hello))
	if _, err := io.WriteString(conn, hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != hello {
		t.Fatalf("read %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// fixed is a Proxy function that always returns the same proxy, and checks the scheme of the URL.
func fixed(t *testing.T, scheme, proxy string) func(*url.URL) (*url.URL, error) {
	t.Helper()
	chosen := parseURL(t, proxy)
	return func(u *url.URL) (*url.URL, error) {
		if u.Scheme != scheme {
			t.Errorf("asked about scheme %s, want %s", u.Scheme, scheme)
		}
		return chosen, nil
	}
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestConnect connects through every kind of proxy and directly, plain and with TLS.
func TestConnect(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "server.test")
	proxyTLS, toProxyTLS := certificate(t, "proxy.test")
	toProxyTLS.ServerName = "proxy.test"
	plain, secure := listen(t, nil, echo), listen(t, serverTLS, echo)
	for _, scheme := range []string{"ws", "wss"} {
		target, asked := plain, "http"
		if scheme == "wss" {
			target, asked = secure, "https"
		}
		var log proxyLog
		port := port(t, target)
		for _, tt := range []struct{ name, proxy, want string }{
			{"direct", "", "[]"},
			{"http", "http://me:pass@" + httpProxy(t, nil, target, &log), "[CONNECT server.test:" + port + " Basic bWU6cGFzcw==]"},
			{"https", "https://me@" + httpProxy(t, proxyTLS, target, &log), "[CONNECT server.test:" + port + " Basic bWU6]"},
			{"socks5", "socks5://" + socksProxy(t, target, "", &log), "[name server.test " + port + "]"},
			{"socks5 with a user", "socks5://me:pass@" + socksProxy(t, target, "pass", &log), "[me name server.test " + port + "]"},
			{"socks5 with a needless user", "socks5h://me:x@" + socksProxy(t, target, "", &log), "[name server.test " + port + "]"},
		} {
			t.Run(scheme+" "+tt.name, func(t *testing.T) {
				log.asked = nil
				var tr tracker
				d := &proxydial.Dialer{Dial: tr.Dial, TLS: clientTLS, ProxyTLS: toProxyTLS}
				if tt.proxy != "" {
					d.Proxy = fixed(t, asked, tt.proxy)
				} else {
					tr.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, target)
					}
				}
				ctx, cancel := context.WithCancel(bounded(t))
				conn, err := d.Connect(ctx, parseURL(t, scheme+"://server.test:"+port+"/chat"))
				cancel() // the context may end after Connect
				if err != nil {
					t.Fatal(err)
				}
				if over, ok := conn.(*tls.Conn); ok != (scheme == "wss" || tt.name == "https") {
					t.Errorf("the connection is a %T", conn)
				} else if ok && scheme == "wss" {
					if s := over.ConnectionState(); s.NegotiatedProtocol != "http/1.1" || s.ServerName != "server.test" {
						t.Errorf("TLS agreed on %q with %q", s.NegotiatedProtocol, s.ServerName)
					}
				}
				use(t, conn)
				if got := log.all(); got != tt.want || tr.leaks() != 0 || tr.made.Load() != 1 {
					t.Errorf("the proxy was asked %s, want %s; %d connections made, %d open", got, tt.want, tr.made.Load(), tr.leaks())
				}
			})
		}
	}
	if clientTLS.ServerName != "" || clientTLS.NextProtos[0] != "h2" {
		t.Error("the configuration was changed")
	}
}

// TestConnectDefaults uses no option, and a Proxy that returns none.
func TestConnectDefaults(t *testing.T) {
	u := parseURL(t, "ws://"+listen(t, nil, echo))
	for _, d := range []*proxydial.Dialer{{}, {Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }}} {
		conn, err := d.Connect(bounded(t), u)
		if err != nil {
			t.Fatal(err)
		}
		use(t, conn)
	}
}

// TestConnectAddress checks the dialed address.
func TestConnectAddress(t *testing.T) {
	stop := errors.New("no further")
	for _, tt := range []struct{ server, proxy, want string }{
		{"ws://h", "", "h:80"},
		{"http://h:/", "", "h:80"},
		{"wss://h/x", "", "h:443"},
		{"https://h:8443", "", "h:8443"},
		{"ws://[::1]", "", "[::1]:80"},
		{"ws://[fe80::1%25lo]:8000", "", "[fe80::1%lo]:8000"},
		{"ws://h", "http://p", "p:80"},
		{"ws://h", "https://p", "p:443"},
		{"wss://h", "http://p:3128/ignored", "p:3128"},
		{"ws://h", "socks5://p", "p:1080"},
		{"ws://h", "socks5h://[::1]", "[::1]:1080"},
	} {
		tr := tracker{dial: func(context.Context, string, string) (net.Conn, error) { return nil, stop }}
		d := &proxydial.Dialer{Dial: tr.Dial}
		hop := "server"
		if tt.proxy != "" {
			hop = "proxy"
			d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse(tt.proxy) }
		}
		conn, err := d.Connect(bounded(t), parseURL(t, tt.server))
		e, ok := errors.AsType[*proxydial.Error](err)
		if conn != nil || !ok || !errors.Is(err, stop) || e.Hop != hop || e.Address != tt.want || e.Step != "dial" {
			t.Errorf("%+v: %v, %v", tt, conn, err)
		}
		if got := tr.last.Load(); got != "tcp "+tt.want {
			t.Errorf("%+v: dialed %v", tt, got)
		}
	}
}

// fromEnvironment is a Proxy function that does what net/http does.
func fromEnvironment(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}

// TestProxyFromEnvironment checks that the variables for http apply to ws. TestMain has set them.
func TestProxyFromEnvironment(t *testing.T) {
	stop := errors.New("no further")
	for server, want := range map[string]string{
		"ws://h": "tcp for-ws.test:80", "http://h": "tcp for-ws.test:80", "wss://h": "tcp for-wss.test:80", "https://h": "tcp for-wss.test:80",
		"ws://direct.test": "tcp direct.test:80", "wss://127.0.0.1": "tcp 127.0.0.1:443",
	} {
		tr := tracker{dial: func(context.Context, string, string) (net.Conn, error) { return nil, stop }}
		d := &proxydial.Dialer{Dial: tr.Dial, Proxy: fromEnvironment}
		if _, err := d.Connect(bounded(t), parseURL(t, server)); !errors.Is(err, stop) || tr.last.Load() != want {
			t.Errorf("%s: dialed %v, want %s; %v", server, tr.last.Load(), want, err)
		}
	}
}

// TestConnectRefuses checks that unusable URLs are refused before anything is dialed, and that errors contain no credentials.
func TestConnectRefuses(t *testing.T) {
	broken := errors.New("broken")
	choose := func(proxy string) func(*url.URL) (*url.URL, error) {
		return func(*url.URL) (*url.URL, error) { return url.Parse(proxy) }
	}
	good := &url.URL{Scheme: "ws", Host: "h"}
	for _, tt := range []struct {
		name  string
		u     *url.URL
		proxy func(*url.URL) (*url.URL, error)
		want  string
	}{
		{"scheme", &url.URL{Scheme: "ftp", Host: "h"}, nil, "ws://"},
		{"no host", &url.URL{Scheme: "ws", Host: ":80"}, nil, "no host"},
		{"opaque", &url.URL{Scheme: "ws", Opaque: "h"}, nil, "no host"},
		{"line end", &url.URL{Scheme: "ws", Host: "a\r\nb"}, nil, "Punycode"},
		{"international name", &url.URL{Scheme: "ws", Host: "bücher.test"}, nil, "Punycode"},
		{"port 0", &url.URL{Scheme: "ws", Host: "h:0"}, nil, "65535"},
		{"port 65536", &url.URL{Scheme: "ws", Host: "h:65536"}, nil, "65535"},
		{"Proxy fails", good, func(*url.URL) (*url.URL, error) { return nil, broken }, "choose a proxy: broken"},
		{"proxy of another scheme", good, choose("quic://me:secret@p"), "unknown proxy scheme"},
		{"proxy without a scheme", good, choose("//me:secret@p"), "unknown proxy scheme"},
		{"proxy without a host", good, choose("http://me:secret@:1"), "proxy has no host"},
		{"port of the proxy", good, choose("http://me:secret@p:99999"), "65535"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracker{}
			conn, err := (&proxydial.Dialer{Dial: tr.Dial, Proxy: tt.proxy}).Connect(bounded(t), tt.u)
			if conn != nil || err == nil || !strings.HasPrefix(err.Error(), "websocket: connect: ") ||
				!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, %v; want an error about %q", conn, err, tt.want)
			}
			if tr.last.Load() != nil {
				t.Error("it dialed")
			}
		})
	}
}

// TestConnectFails checks that the error names the hop and the step that failed, and that no connection stays open.
func TestConnectFails(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "server.test")
	_, stranger := certificate(t, "server.test")
	stranger.ServerName = "server.test"
	plain, secure := listen(t, nil, echo), listen(t, serverTLS, echo)
	closed := func() string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return l.Addr().String()
	}()
	var log proxyLog
	unknownAuthority := func(err error) bool { _, ok := errors.AsType[x509.UnknownAuthorityError](err); return ok }
	wrongName := func(err error) bool { _, ok := errors.AsType[x509.HostnameError](err); return ok }
	says := func(text string) func(error) bool {
		return func(err error) bool { return strings.Contains(err.Error(), text) }
	}
	for _, tt := range []struct {
		name, server, proxy string
		config              *tls.Config
		hop, step           string
		is                  func(error) bool
	}{
		{"refused", "ws://" + closed, "", nil, "server", "dial", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"proxy refused", "ws://h", "http://" + closed, nil, "proxy", "dial", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"unknown authority", "wss://" + secure, "", stranger, "server", "TLS", unknownAuthority},
		{"wrong name", "wss://" + secure, "", clientTLS, "server", "TLS", wrongName},
		{"server without TLS", "wss://" + plain, "", clientTLS, "server", "TLS", says("unexpected handshake message")},
		{"proxy without TLS", "wss://h", "https://" + plain, clientTLS, "proxy", "TLS", says("unexpected handshake message")},
		{"unknown authority behind a proxy", "wss://h", "socks5://" + socksProxy(t, secure, "", &log), stranger, "server", "TLS", unknownAuthority},
		{"no credentials", "ws://h", "http://" + httpProxy(t, nil, plain, &log), nil, "proxy", "CONNECT", says(`status 407: `)},
		{"proxy cannot connect", "ws://h", "http://me@" + httpProxy(t, nil, closed, &log), nil, "proxy", "CONNECT", says("status 502 Bad Gateway")},
		{"SOCKS5 cannot connect", "ws://h", "socks5://" + socksProxy(t, closed, "", &log), nil, "proxy", "SOCKS5", says("connection refused")},
		{"SOCKS5 wants a user", "ws://h", "socks5://" + socksProxy(t, plain, "pass", &log), nil, "proxy", "SOCKS5", says("put user and password")},
		{"SOCKS5 wants another", "ws://h", "socks5://me:word@" + socksProxy(t, plain, "pass", &log), nil, "proxy", "SOCKS5", says("refused user")},
		{"a zone through a proxy", "ws://[fe80::1%25lo]", "socks5://" + plain, nil, "proxy", "SOCKS5", says("zone")},
		{"a zone through an HTTP proxy", "ws://[fe80::1%25lo]", "http://" + plain, nil, "proxy", "CONNECT", says("zone")},
		{"a colon in the user", "ws://h", "http://a%3Ab:secret@" + plain, nil, "proxy", "CONNECT", says("colon")},
		{"a long user", "ws://h", "socks5://" + strings.Repeat("u", 256) + "@" + plain, nil, "proxy", "SOCKS5", says("255")},
		{"a long name", "ws://" + strings.Repeat("h", 256), "socks5://" + plain, nil, "proxy", "SOCKS5", says("255")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tr tracker
			d := &proxydial.Dialer{Dial: tr.Dial, TLS: tt.config, ProxyTLS: tt.config}
			if tt.proxy != "" {
				d.Proxy = func(*url.URL) (*url.URL, error) { return url.Parse(tt.proxy) }
			}
			conn, err := d.Connect(bounded(t), parseURL(t, tt.server))
			e, ok := errors.AsType[*proxydial.Error](err)
			if conn != nil || !ok || e.Hop != tt.hop || e.Step != tt.step || !tt.is(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, %v", conn, err)
			}
			if tr.leaks() != 0 {
				t.Error("the connection is open")
			}
		})
	}
}
