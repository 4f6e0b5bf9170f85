package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

var (
	proxyFrom = netip.MustParseAddrPort("192.0.2.7:56324")
	proxyTo   = netip.MustParseAddrPort("198.51.100.1:443")
)

// behindProxy returns the proxy's end of a connection in memory, and the server's.
func behindProxy(t *testing.T, p *transport.Proxy) (*transport.MemoryConn, *transport.ProxyConn, *transport.Listener) {
	t.Helper()
	memory := transport.NewMemory(0)
	l, err := transport.Wrap(memory, &transport.Options{Proxy: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	client, err := memory.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err := l.Accept() // before anything is written
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server.(*transport.ProxyConn), l
}

func write(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
}

// The first call that needs the header reads it, and no byte behind it.
func TestProxyConn(t *testing.T) {
	header := headerV1(proxyFrom, proxyTo)
	for name, first := range map[string]func(c *transport.ProxyConn) error{
		"handshake": func(c *transport.ProxyConn) error { return c.HandshakeContext(context.Background()) },
		"read": func(c *transport.ProxyConn) error {
			_, err := c.Read(nil)
			return err
		},
		"write": func(c *transport.ProxyConn) error {
			_, err := c.Write([]byte("welcome"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server, l := behindProxy(t, new(transport.Proxy))
			if server.RemoteAddr().Network() != "memory" || server.LocalAddr().Network() != "memory" || server.Header() != nil {
				t.Error("the header is known before it came", server.RemoteAddr(), server.LocalAddr(), server.Header())
			}
			if _, _, ok := server.Plain(); ok || l.Plain() {
				t.Error("plain before the header")
			}
			write(t, client, header+"hello")
			if err := first(server); err != nil {
				t.Fatal(err)
			}
			if server.RemoteAddr().String() != proxyFrom.String() || server.LocalAddr().String() != proxyTo.String() {
				t.Error(server.RemoteAddr(), server.LocalAddr())
			}
			if h := server.Header(); h.Source != proxyFrom || h.Version != 1 {
				t.Errorf("%+v", h)
			}
			bare, unread, ok := server.Plain()
			if _, isMemory := bare.(*transport.MemoryConn); !isMemory || len(unread) != 0 || !ok || server.NetConn() != bare {
				t.Error(bare, unread, ok)
			}
			p := make([]byte, 5)
			if _, err := io.ReadFull(bare, p); err != nil || string(p) != "hello" {
				t.Errorf("%q, %v", p, err)
			}
			say(t, client, server, "more")
			if err := server.CloseWrite(); err != nil {
				t.Error(err)
			}
			if s := l.Stats(); s.Accepted != 1 || s.BadHeaders != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A header without addresses leaves those of the connection. Addresses of Unix sockets are *net.UnixAddr.
func TestProxyConnAddresses(t *testing.T) {
	for header, want := range map[string][2]string{
		"PROXY UNKNOWN\r\n":                               {"memory dialed", "memory listener"},
		headerV2(0x20, 0x11, ""):                          {"memory dialed", "memory listener"},
		headerV2(0x21, 0x31, pad("/run/a")+pad("/run/b")): {"unix /run/a", "unix /run/b"},
		"PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 1 2\r\n": {"tcp 192.0.2.7:1", "tcp [2001:db8::1]:2"},
	} {
		client, server, _ := behindProxy(t, new(transport.Proxy))
		write(t, client, header)
		if err := server.HandshakeContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i, addr := range []net.Addr{server.RemoteAddr(), server.LocalAddr()} {
			if got := addr.Network() + " " + addr.String(); got != want[i] {
				t.Errorf("%q: %s, not %s", header, got, want[i])
			}
		}
	}
}

// An invalid header closes the connection, and every call gets the same error.
func TestProxyConnRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nonsense": {"GET / HTTP/1.1\r\n\r\n", transport.ErrProxyHeader},
		"nothing":  {"", io.EOF},
		"half":     {"PROXY TCP4 1.2.3.4 ", io.ErrUnexpectedEOF},
		"half 2":   {headerV2(0x21, 0x11, "abcdefghijkl")[:20], io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			client, server, l := behindProxy(t, new(transport.Proxy))
			write(t, client, c.text)
			_ = client.CloseWrite()
			_, read := server.Read(make([]byte, 1))
			_, write := server.Write([]byte("secret"))
			for _, err := range []error{read, write, server.HandshakeContext(context.Background())} {
				if !errors.Is(err, c.want) || !errors.Is(err, read) || errors.Is(c.want, io.EOF) && err != io.EOF { //nolint:errorlint // readers compare it
					t.Error(err)
				}
			}
			if got, err := io.ReadAll(client); len(got) != 0 || err != nil {
				t.Errorf("the peer got %q, %v", got, err)
			}
			if _, _, ok := server.Plain(); ok || server.Header() != nil || l.Stats().BadHeaders != 1 {
				t.Errorf("a bad header was good; %+v", l.Stats())
			}
		})
	}
}

const unknown = "PROXY UNKNOWN\r\n"

// inBubble runs f in a bubble, with a connection whose header has not arrived.
func inBubble(t *testing.T, name string, p *transport.Proxy, f func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, server, l := behindProxy(t, p)
			f(t, client, server)
			_, _, _ = client.Close(), server.Close(), l.Close()
		})
	})
}

// The time for a header begins with the first call that waits for it.
func TestProxyConnTimeout(t *testing.T) {
	inBubble(t, "too slow", new(transport.Proxy), func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn) {
		<-time.After(time.Hour) // no call waits
		_ = server.SetReadDeadline(time.Now().Add(time.Minute))
		start := time.Now()
		go func() {
			for i := range unknown { // alive, but too slow
				if _, err := client.Write([]byte(unknown[i : i+1])); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		}()
		_, err := server.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Error(err, time.Since(start))
		}
		if err := server.HandshakeContext(context.Background()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		<-time.After(time.Minute)
	})
	inBubble(t, "for ever", &transport.Proxy{Timeout: -1}, func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn) {
		time.AfterFunc(time.Hour, func() { _, _ = client.Write([]byte(unknown)) })
		if err := server.HandshakeContext(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Interruptions: the context ends the connection, the caller's own deadline only the call, and one call reads the header for all.
func TestProxyConnInterrupted(t *testing.T) {
	inBubble(t, "context", new(transport.Proxy), func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := server.HandshakeContext(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Error(err, time.Since(start))
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error("left open:", err)
		}
	})
	inBubble(t, "interrupted", new(transport.Proxy), func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn) {
		write(t, client, unknown[:7])
		_ = server.SetDeadline(time.Now().Add(time.Second))
		if _, err := server.Read(make([]byte, 1)); !isTimeout(err) {
			t.Error(err)
		}
		write(t, client, unknown[7:]+"hello")
		_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
		p := make([]byte, 5)
		if _, err := io.ReadFull(server, p); err != nil || string(p) != "hello" {
			t.Errorf("%q, %v", p, err)
		}
		// The caller's deadline is in force again, not that of the header.
		start := time.Now()
		if _, err := server.Read(p); !isTimeout(err) || time.Since(start) != 10*time.Second {
			t.Error(err, time.Since(start))
		}
	})
	inBubble(t, "together", new(transport.Proxy), func(t *testing.T, client *transport.MemoryConn, server *transport.ProxyConn) {
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := server.Write([]byte("x"))
				errs <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := server.HandshakeContext(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		write(t, client, unknown)
		for range 3 {
			if err := testwait.Receive(t, errs); err != nil {
				t.Error(err)
			}
		}
	})
}

// Only trusted peers send a header.
func TestProxyTrust(t *testing.T) {
	prefixes := func(list ...string) (p []netip.Prefix) {
		for _, s := range list {
			p = append(p, netip.MustParsePrefix(s))
		}
		return p
	}
	for _, c := range []struct {
		name, listen, dial string
		p                  transport.Proxy
		want               string // header, as is, closed
	}{
		{"trusted", "127.0.0.1:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("10.0.0.0/8", "127.0.0.0/8")}, "header"},
		{"trusted and required", "127.0.0.1:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("127.0.0.1/32"), Required: true}, "header"},
		{"trusted, mapped", "127.0.0.1:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("::ffff:127.0.0.0/104")}, "header"},
		{"trusted, both stacks", "[::]:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("127.0.0.0/8")}, "header"},
		{"trusted, IPv6", "[::1]:0", "::1", transport.Proxy{Trusted: prefixes("::1/128")}, "header"},
		{"IPv4 only", "[::1]:0", "::1", transport.Proxy{Trusted: prefixes("0.0.0.0/0")}, "as is"},
		{"others", "127.0.0.1:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("10.0.0.0/8", "127.0.0.2/32")}, "as is"},
		{"nobody", "127.0.0.1:0", "127.0.0.1", transport.Proxy{}, "as is"},
		{"required", "127.0.0.1:0", "127.0.0.1", transport.Proxy{Trusted: prefixes("10.0.0.0/8"), Required: true}, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t, "tcp", c.listen, &transport.Options{Proxy: &c.p})
			accepted := make(chan net.Conn, 1)
			go func() {
				conn, _ := l.Accept()
				accepted <- conn
			}()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			client, err := transport.Dial(context.Background(), "tcp", net.JoinHostPort(c.dial, port), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_ = client.SetDeadline(time.Now().Add(10 * time.Second))
			if c.want == "closed" {
				if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				if s := l.Stats(); s.Refused != 1 || s.Accepted != 0 {
					t.Errorf("%+v", s)
				}
				_ = l.Close()
				testwait.Receive(t, accepted)
				return
			}
			server := testwait.Receive(t, accepted)
			defer server.Close()
			header, from := headerV1(proxyFrom, proxyTo), proxyFrom.String()
			want := "hello"
			if c.want == "as is" {
				want, from = header+want, client.LocalAddr().String()
			}
			write(t, client, header+"hello")
			p := make([]byte, len(want))
			if _, err := io.ReadFull(server, p); err != nil || string(p) != want || server.RemoteAddr().String() != from {
				t.Errorf("%q from %v, %v", p, server.RemoteAddr(), err)
			}
		})
	}
	if _, err := transport.Listen(context.Background(), "tcp", "127.0.0.1:0", &transport.Options{
		Proxy: &transport.Proxy{Trusted: make([]netip.Prefix, 1)},
	}); err == nil {
		t.Error("a prefix that is none was taken")
	}
}

// TLS begins after the header, and the addresses are those of the header.
func TestProxyTLS(t *testing.T) {
	cert := newAuthority(t).issue(t, "example.org")
	roots := x509.NewCertPool()
	roots.AddCert(cert.authority)
	l := listen(t, "unix", socketPath(t), &transport.Options{
		TLS:   &tls.Config{Certificates: []tls.Certificate{cert.pair}},
		Proxy: &transport.Proxy{Required: true},
	})
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	family, body := bodyV2(proxyFrom, proxyTo)
	write(t, conn, headerV2(0x21, family, body, tlv{2, "example.org"}))
	client := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: "example.org"})
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	closing(t, client, server)
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	if err := server.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := testwait.Receive(t, shaken); err != nil {
		t.Fatal(err)
	}
	say(t, client, server, "hello")
	say(t, server, client, "world")
	if server.RemoteAddr().String() != proxyFrom.String() {
		t.Error(server.RemoteAddr())
	}
	h := server.(*tls.Conn).NetConn().(*transport.ProxyConn).Header()
	if name, _ := h.TLV(2); string(name) != "example.org" {
		t.Errorf("%q", name)
	}
}
