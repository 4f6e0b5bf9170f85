package portsplit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/cmd/sluice/internal/portsplit"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// port is a split port. Each accepted connection goes to a channel.
type port struct {
	t          *testing.T
	addr       string
	http, grpc chan net.Conn
	close      func() error
}

func newPort(t *testing.T, o portsplit.Options) *port {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	http, grpc := portsplit.New(l, o)
	p := &port{t: t, addr: l.Addr().String(), http: make(chan net.Conn, 10), grpc: make(chan net.Conn, 10), close: http.Close}
	done := make(chan struct{}, 2)
	for l, to := range map[net.Listener]chan net.Conn{http: p.http, grpc: p.grpc} {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				conn, err := l.Accept()
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				t.Cleanup(func() { _ = conn.Close() })
				to <- conn
			}
		}()
	}
	t.Cleanup(func() {
		must(t, http.Close())
		testwait.Receive(t, done)
		testwait.Receive(t, done)
	})
	return p
}

func (p *port) dial() net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	must(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// expect receives a connection whose first bytes are some text.
func (p *port) expect(from chan net.Conn, text string) net.Conn {
	p.t.Helper()
	conn := testwait.Receive(p.t, from)
	must(p.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(conn, got)
	if err != nil || string(got) != text {
		p.t.Errorf("got %q, %v, want %q", got, err, text)
	}
	return conn
}

// TestClear: the first bytes decide, however they arrive.
func TestClear(t *testing.T) {
	p := newPort(t, portsplit.Options{})
	for _, tt := range []struct {
		parts []string
		grpc  bool
	}{
		{[]string{"GET / HTTP/1.1\r\n"}, false},
		{[]string{"POST / HTTP/1.1\r\n"}, false},
		{[]string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, true},
		{[]string{"P", "R", "I", " *"}, true},
		{[]string{"P", "UT /"}, false},
		{[]string{"PR", "OPFIND /"}, false},
		{[]string{"G"}, false},
		{[]string{"\x16\x03\x01"}, false},
	} {
		conn := p.dial()
		text := ""
		for i, part := range tt.parts {
			_, err := io.WriteString(conn, part)
			must(t, err)
			text += part
			if i < len(tt.parts)-1 { // connections are accepted in order: once the next one has been, the part was looked at
				next := p.dial()
				_, err := io.WriteString(next, "GET /")
				must(t, err)
				p.expect(p.http, "GET /")
			}
		}
		from := p.http
		if tt.grpc {
			from = p.grpc
		}
		p.expect(from, text)
	}
}

// TestShared: HTTP gets everything.
func TestShared(t *testing.T) {
	p := newPort(t, portsplit.Options{Shared: true})
	_, err := io.WriteString(p.dial(), "PRI * HTTP/2.0")
	must(t, err)
	p.expect(p.http, "PRI *")
}

// TestSlow: a peer that does not say enough is closed, and does not hold up others.
func TestSlow(t *testing.T) {
	for _, text := range []string{"", "P", "PR"} {
		p := newPort(t, portsplit.Options{Timeout: 200 * time.Millisecond})
		slow := p.dial()
		_, err := io.WriteString(slow, text)
		must(t, err)
		_, err = io.WriteString(p.dial(), "GET /")
		must(t, err)
		p.expect(p.http, "GET /")
		if n, err := slow.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%q: read %d, %v", text, n, err)
		}
	}
}

// TestClose: connections that are not told yet, and connections that are not accepted end with the listener.
func TestClose(t *testing.T) {
	p := newPort(t, portsplit.Options{Timeout: time.Hour})
	slow := p.dial()
	_, err := io.WriteString(p.dial(), "GET /")
	must(t, err)
	p.expect(p.http, "GET /")
	must(t, p.close())
	if n, err := slow.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
}

// TestNotServed: connections of a side that is not served yet wait, and do not hold up the other side.
func TestNotServed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	http, grpc := portsplit.New(l, portsplit.Options{})
	defer func() { must(t, http.Close()) }()
	p := &port{t: t, addr: l.Addr().String()}
	for range 200 {
		_, err = io.WriteString(p.dial(), "PRI *")
		must(t, err)
	}
	_, err = io.WriteString(p.dial(), "GET /")
	must(t, err)
	accepted, err := http.Accept()
	must(t, err)
	_ = accepted.Close()
	for range 128 {
		conn, err := grpc.Accept()
		must(t, err)
		_ = conn.Close()
	}
	must(t, grpc.Close())
	if _, err := grpc.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted after Close: %v", err)
	}
}

// TestTLS: what a client offers decides, and a client that makes no handshake is closed.
func TestTLS(t *testing.T) {
	for _, shared := range []bool{false, true} {
		p := newPort(t, portsplit.Options{
			Shared: shared, Timeout: 300 * time.Millisecond,
			TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12},
		})
		slow := p.dial()
		for _, tt := range []struct {
			offer []string
			want  string // the protocol
			grpc  bool
		}{
			{[]string{"h2"}, "h2", true},
			{[]string{"h2", "http/1.1"}, "h2", false},
			{[]string{"http/1.1"}, "http/1.1", false},
			{nil, "", false},
		} {
			conn := tls.Client(p.dial(), &tls.Config{NextProtos: tt.offer, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // a test
			_, err := io.WriteString(conn, "text")
			must(t, err)
			from := p.http
			if tt.grpc && !shared {
				from = p.grpc
			}
			secured, ok := p.expect(from, "text").(*tls.Conn)
			if !ok || secured.ConnectionState().NegotiatedProtocol != tt.want {
				t.Errorf("%q: got %v", tt.offer, secured)
			}
		}
		if n, err := slow.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
}

// TestStalledHandshake: a client that stops in the middle of its handshake is closed, wherever it stops, and others complete theirs meanwhile.
func TestStalledHandshake(t *testing.T) {
	p := newPort(t, portsplit.Options{
		Timeout: 300 * time.Millisecond,
		TLS:     &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS12},
	})
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // a test
	var stalled []net.Conn
	for _, most := range []int{1, 5, 100, 300, 1 << 20} { // bytes of the handshake that are sent: the last client does not answer the server's part
		conn := p.dial()
		_ = tls.Client(&stallingConn{Conn: conn, left: most}, config).Handshake() // fails when the hello is sent
		stalled = append(stalled, conn)
	}
	secured := tls.Client(p.dial(), config)
	_, err := io.WriteString(secured, "text")
	must(t, err)
	p.expect(p.http, "text")
	for i, conn := range stalled {
		must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is open: %v", i, err)
		}
	}
}

// TestBadHeader: a connection without a valid PROXY header is closed and counted, but not one that ends with the listener.
func TestBadHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := transport.NewMemory(0)
		source, err := transport.Wrap(memory, &transport.Options{Proxy: &transport.Proxy{}})
		must(t, err)
		var bad atomic.Int64
		http, _ := portsplit.New(source, portsplit.Options{BadHeader: func() { bad.Add(1) }})
		dial := func(text string) net.Conn {
			conn, err := memory.Dial(t.Context())
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, text)
			must(t, err)
			return conn
		}
		dial("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\nGET /")
		conn, err := http.Accept()
		must(t, err)
		if got := conn.RemoteAddr().String(); got != "192.0.2.7:1" || bad.Load() != 0 {
			t.Errorf("the address is %s, %d headers are bad", got, bad.Load())
		}
		must(t, conn.Close())
		for i, text := range []string{"GET / HTTP/1.1\r\n\r\n", "PROXY x\r\n", "PROXY TCP4 192.0.2.7", ""} { // the last two are late
			if got, err := io.ReadAll(dial(text)); len(got) > 0 || err != nil {
				t.Errorf("%q: read %q, %v", text, got, err)
			}
			synctest.Wait()
			if got := bad.Load(); got != int64(i+1) {
				t.Errorf("%q: %d headers are bad, want %d", text, got, i+1)
			}
		}
		dial("")
		synctest.Wait()
		must(t, http.Close())
		if got := bad.Load(); got != 4 {
			t.Errorf("%d headers are bad after Close, want 4", got)
		}
	})
}

// stallingConn is a client that sends so many bytes, and reads nothing.
type stallingConn struct {
	net.Conn
	left int
}

func (c *stallingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	c.left -= n
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (*stallingConn) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// certificate makes a certificate for tests.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
