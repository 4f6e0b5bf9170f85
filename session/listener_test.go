package session_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
	socket "github.com/sluice-push/sluice/transport"
)

// listenWith makes a listener of package transport.
func listenWith(t testing.TB, network, addr string, o *socket.Options) *socket.Listener {
	t.Helper()
	ln, err := socket.Listen(t.Context(), network, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// opened returns a handler that echoes and reports its sessions.
func opened(n int) (session.Handler, chan *session.Session) {
	ch := make(chan *session.Session, n)
	h := echo()
	h.Open = func(s *session.Session) error { ch <- s; return nil }
	return h, ch
}

// Whatever the listener is, sessions over plain sockets are on loops if the engine has them, and other sessions are not.
func TestServeListeners(t *testing.T) {
	linux := runtime.GOOS == "linux"
	tests := map[string]struct {
		listen func(t *testing.T) net.Listener
		tls    bool
		loop   bool
	}{
		"net":       {func(t *testing.T) net.Listener { return listen(t, "tcp", "127.0.0.1:0") }, false, linux},
		"transport": {func(t *testing.T) net.Listener { return listenWith(t, "tcp", "127.0.0.1:0", nil) }, false, linux},
		"wrapped":   {func(t *testing.T) net.Listener { return wrappingListener{listen(t, "tcp", "127.0.0.1:0")} }, false, false},
		"transport TLS": {func(t *testing.T) net.Listener {
			return listenWith(t, "tcp", "127.0.0.1:0", &socket.Options{TLS: serverTLS()})
		}, true, false},
	}
	for name, tt := range tests {
		for _, engine := range []session.Engine{session.EngineAuto, session.EngineGoroutine} {
			t.Run(name, func(t *testing.T) {
				h, sessions := opened(1)
				srv := session.NewServer(line, &h, &session.Options{Engine: engine})
				ln := tt.listen(t)
				addr := serve(t, srv, ln)
				c, err := socket.Dial(t.Context(), "tcp", addr, dialOptions(tt.tls))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				write(t, c, "hello\n")
				expect(t, c, "hello\n")
				s := receive(t, sessions)
				if session.OnLoop(s) != (tt.loop && engine == session.EngineAuto) {
					t.Errorf("on a loop: %v", session.OnLoop(s))
				}
				if s.RemoteAddr().String() != c.LocalAddr().String() || s.LocalAddr().String() != addr || s.ProxyHeader() != nil {
					t.Errorf("from %v to %v", s.RemoteAddr(), s.LocalAddr())
				}
			})
		}
	}
}

func dialOptions(secure bool) *socket.Options {
	if !secure {
		return nil
	}
	return &socket.Options{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is not what is tested
}

// behindProxy serves connections that begin with a PROXY header from loopback, and returns the address.
func behindProxy(t *testing.T, srv *session.Server, secure bool) string {
	t.Helper()
	o := &socket.Options{Proxy: &socket.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	if secure {
		o.TLS = serverTLS()
	}
	return serve(t, srv, listenWith(t, "tcp", "127.0.0.1:0", o))
}

// dialTCP connects, with a deadline for all reads and writes.
func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(limit))
	return c
}

// Behind a proxy, sessions have the client's address, are counted by it, and move to a loop after the header if they can.
func TestServeBehindAProxy(t *testing.T) {
	headers := map[string]struct{ header, remote, local string }{
		"tcp4":    {"PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n", "192.0.2.1:1000", "192.0.2.2:2000"},
		"tcp6":    {"PROXY TCP6 2001:db8::1 2001:db8::2 1000 2000\r\n", "[2001:db8::1]:1000", "[2001:db8::2]:2000"},
		"unknown": {"PROXY UNKNOWN\r\n", "", ""},
		"unix":    {"\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8/a" + string(make([]byte, 106)) + "/b" + string(make([]byte, 106)), "/a", "/b"},
	}
	for name, header := range headers {
		for _, engine := range []session.Engine{session.EngineAuto, session.EngineGoroutine} {
			for _, secure := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					tt := header
					h, sessions := opened(1)
					srv := session.NewServer(line, &h, &session.Options{Engine: engine, MaxSessionsPerAddress: 1})
					addr := behindProxy(t, srv, secure)
					c := dialTCP(t, addr)
					write(t, c, tt.header)
					if secure {
						c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is not what is tested
					}
					write(t, c, "hello\n")
					expect(t, c, "hello\n")
					s := receive(t, sessions)
					if want := runtime.GOOS == "linux" && !secure && engine == session.EngineAuto; session.OnLoop(s) != want {
						t.Errorf("on a loop: %v", !want)
					}
					if tt.remote == "" {
						tt.remote, tt.local = c.LocalAddr().String(), addr
					}
					if s.RemoteAddr().String() != tt.remote || s.LocalAddr().String() != tt.local || s.ProxyHeader() == nil {
						t.Errorf("from %v to %v, %v", s.RemoteAddr(), s.LocalAddr(), s.ProxyHeader())
					}
					if s.Conn() == nil {
						t.Error("no connection")
					}
					other := dialTCP(t, addr)
					write(t, other, tt.header)
					if name != "unix" { // Unix addresses are not counted
						if got := expectEnd(t, other); got != "" {
							t.Errorf("received %q", got)
						}
					}
					_ = c.Close()
					await(t, func() bool { return srv.Stats().Closed == 1 })
				})
			}
		}
	}
}

// A connection with a bad or late header, or beyond the limit, is refused. Close waits for no header.
func TestServeRefusesHeaders(t *testing.T) {
	t.Run("bad", func(t *testing.T) {
		srv := session.NewServer(line, nil, nil)
		c := dialTCP(t, behindProxy(t, srv, false))
		write(t, c, "GET / HTTP/1.1\r\n")
		await(t, func() bool { return srv.Stats().Refused == 1 })
	})
	t.Run("late", func(t *testing.T) {
		srv := session.NewServer(line, nil, &session.Options{HandshakeTimeout: time.Millisecond})
		c := dialTCP(t, behindProxy(t, srv, false))
		write(t, c, "PROXY TCP")
		await(t, func() bool { return srv.Stats().Refused == 1 })
		_ = expectEnd(t, c)
	})
	t.Run("limit", func(t *testing.T) {
		srv := session.NewServer(line, nil, &session.Options{MaxSessions: 1})
		addr := behindProxy(t, srv, false)
		first := dialTCP(t, addr)
		second := dialTCP(t, addr)
		await(t, func() bool { return srv.Stats().Refused == 1 })
		_ = first.Close()
		_ = second.Close()
	})
	t.Run("close", func(t *testing.T) {
		srv := session.NewServer(line, nil, &session.Options{HandshakeTimeout: -1})
		c := dialTCP(t, behindProxy(t, srv, true))
		await(t, func() bool { return session.PendingConns(srv) == 1 })
		_ = srv.Close()
		_ = expectEnd(t, c)
	})
}

// While a server is closing, connections are refused, with the listener still in use and after it is closed. Nothing is left behind.
func TestServeClosesWhileConnectionsCome(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		srv := session.NewServer(line, nil, &session.Options{Engine: tr.engine})
		dial := tr.start(t, srv)
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c, err := dial(); err == nil {
					_ = c.Close()
				}
			}
		}()
		await(t, func() bool { return srv.Stats().Opened > 3 })
		_ = srv.Close()
		close(stop)
		receive(t, done)
		if err := srv.Serve(listen(t, "tcp", "127.0.0.1:0")); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// Bytes that come together with the PROXY header belong to the session.
func TestBytesBehindTheHeader(t *testing.T) {
	h, _ := opened(1)
	srv := session.NewServer(line, &h, nil)
	c := dialTCP(t, behindProxy(t, srv, false))
	var all bytes.Buffer
	all.WriteString("PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\nhello\nagain\n")
	write(t, c, all.String())
	expect(t, c, "hello\nagain\n")
}
