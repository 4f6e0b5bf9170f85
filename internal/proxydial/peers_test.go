package proxydial_test

// The servers and proxies of the tests: small, but real.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
)

// testTimeout bounds every wait of a test. No test should come near it.
const testTimeout = 30 * time.Second

// bounded returns a context that ends after testTimeout.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func parseURL(tb testing.TB, address string) *url.URL {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// certificate returns a certificate for names, as the configurations of both sides.
func certificate(t *testing.T, names ...string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"h2", "http/1.1"},
	}, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}
}

// listen serves each connection in a goroutine that the test waits for, and returns the address.
func listen(t *testing.T, config *tls.Config, serve func(net.Conn)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(testTimeout))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); testwait.Return(t, wg.Wait) })
	return address
}

// echo is a server.
func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// proxyLog is the requests that a proxy has got.
type proxyLog struct {
	mu    sync.Mutex
	asked []string
}

func (l *proxyLog) add(asked string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, asked)
}

func (l *proxyLog) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.asked)
}

// splice copies between two connections in both directions. When one direction ends, it ends the other.
func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(a, b); _ = a.Close() })
	_, _ = io.Copy(b, a)
	_ = b.Close()
	wg.Wait()
}

// httpProxy starts a proxy on net/http that connects to target, whatever the requested name.
func httpProxy(t *testing.T, config *tls.Config, target string, l *proxyLog) string {
	t.Helper()
	var wg sync.WaitGroup
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("Proxy-Authorization")
		l.add(r.Method + " " + r.Host + " " + user)
		if user == "" {
			w.Header().Set("Proxy-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		over, err := new(net.Dialer).DialContext(r.Context(), "tcp", target)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = over.Close()
			return
		}
		wg.Go(func() {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\nContent-Length: 7\r\n\r\n")
			splice(conn, over)
		})
	}))
	if config != nil {
		config = config.Clone()
		config.NextProtos = nil // httptest adds its own
		s.TLS = config
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() { s.Close(); testwait.Return(t, wg.Wait) })
	return s.Listener.Addr().String()
}

// socksProxy starts a SOCKS5 proxy that connects to target, whatever the request. If password is not empty, the proxy requires it.
func socksProxy(t *testing.T, target, password string, l *proxyLog) string {
	t.Helper()
	return listen(t, nil, func(conn net.Conn) {
		asked, err := socksServe(conn, password)
		l.add(asked)
		if err != nil {
			return // the client reports the error
		}
		over, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
		if err != nil {
			_, _ = conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		_, _ = conn.Write([]byte("\x05\x00\x00\x03\x05bound\x12\x34"))
		splice(conn, over)
	})
}

// socksServe reads the messages of a SOCKS5 client, up to its request.
func socksServe(conn net.Conn, password string) (asked string, err error) {
	read := func(n byte) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(conn, b)
		}
		return b
	}
	write := func(b ...byte) {
		if err == nil {
			_, err = conn.Write(b)
		}
	}
	methods := read(read(2)[1])
	if password == "" {
		write(5, 0)
	} else {
		if len(methods) < 2 {
			write(5, 0xff)
			return fmt.Sprint(methods), errors.New("no password")
		}
		write(5, 2)
		name := read(read(2)[1])
		if given := read(read(1)[0]); string(given) != password {
			write(1, 1)
			return string(name), errors.New("wrong password")
		}
		asked = string(name) + " "
		write(1, 0)
	}
	request := read(4)
	switch request[3] {
	case 1:
		asked += net.IP(read(4)).String()
	case 3:
		asked += "name " + string(read(read(1)[0]))
	case 4:
		asked += net.IP(read(16)).String()
	}
	return fmt.Sprint(asked, " ", binary.BigEndian.Uint16(read(2))), err
}

// tracker makes connections, by default over TCP, and counts the open ones.
type tracker struct {
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	made, closed atomic.Int32
	last         atomic.Value // the address dialed
}

func (tr *tracker) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	tr.last.Store(network + " " + address)
	dial := tr.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tr.made.Add(1)
	return &tracked{Conn: conn, tracker: tr}, nil
}

// tracked is a connection that a tracker has made.
type tracked struct {
	net.Conn
	tracker *tracker
	once    sync.Once
}

func (c *tracked) Close() error {
	c.once.Do(func() { c.tracker.closed.Add(1) })
	return c.Conn.Close()
}

// leaks returns the number of open connections.
func (tr *tracker) leaks() int { return int(tr.made.Load() - tr.closed.Load()) }
