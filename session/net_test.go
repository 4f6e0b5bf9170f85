package session_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	network "github.com/sluice-push/sluice/transport"
)

// limit bounds everything in these tests that could hang.
const limit = 20 * time.Second

// transport is a kind of connection. Tests run over all kinds that they can use.
type transport struct {
	name       string
	engine     session.Engine
	direct     bool // it can be written without blocking
	halfCloses bool // it can be half-closed
	start      func(t testing.TB, srv *session.Server) (dial func() (net.Conn, error))
}

var transports = []transport{
	{"tcp", session.EngineLoop, true, true, overTCP},
	{"unix", session.EngineLoop, true, true, overUnix},
	{"tcp goroutine", session.EngineGoroutine, true, true, overTCP},
	{"unix goroutine", session.EngineGoroutine, true, true, overUnix},
	{"wrapped", session.EngineAuto, false, false, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		addr := serve(t, srv, wrappingListener{listen(t, "tcp", "127.0.0.1:0")})
		return func() (net.Conn, error) { return net.Dial("tcp", addr) }
	}},
	{"tls", session.EngineAuto, false, true, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		return overTLS(serve(t, srv, tls.NewListener(listen(t, "tcp", "127.0.0.1:0"), serverTLS())))
	}},
	{"tls loop", session.EngineLoop, true, true, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		session.SetTLS(srv, serverTLS())
		return overTLS(serve(t, srv, listen(t, "tcp", "127.0.0.1:0")))
	}},
	{"tcp offloaded", session.EngineLoop, true, true, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		session.OffloadAll(srv, time.Hour)
		return overTCP(t, srv)
	}},
	{"tls offloaded", session.EngineLoop, true, true, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		session.OffloadAll(srv, time.Hour)
		session.SetTLS(srv, serverTLS())
		return overTLS(serve(t, srv, listen(t, "tcp", "127.0.0.1:0")))
	}},
	{"pipe", session.EngineAuto, false, false, func(_ testing.TB, srv *session.Server) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			client, server := net.Pipe()
			_, err := srv.ServeConn(server, nil)
			return client, err
		}
	}},
	{"memory", session.EngineAuto, false, true, func(_ testing.TB, srv *session.Server) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			client, server := network.Pipe(0)
			_, err := srv.ServeConn(server, nil)
			return client, err
		}
	}},
}

func overTCP(t testing.TB, srv *session.Server) func() (net.Conn, error) {
	addr := serve(t, srv, listen(t, "tcp", "127.0.0.1:0"))
	return func() (net.Conn, error) { return net.Dial("tcp", addr) }
}

// overTLS dials a TLS server.
func overTLS(addr string) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is not what is tested
		return d.DialContext(context.Background(), "tcp", addr)
	}
}

func overUnix(t testing.TB, srv *session.Server) func() (net.Conn, error) {
	addr := serve(t, srv, listen(t, "unix", socketPath(t)))
	return func() (net.Conn, error) { return net.Dial("unix", addr) }
}

// socketPath returns a path for a Unix socket.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// transportOf returns the transport with a name.
func transportOf(t testing.TB, name string) transport {
	t.Helper()
	for _, tr := range transports {
		if tr.name == name {
			return tr
		}
	}
	t.Fatalf("there is no transport %q", name)
	return transport{}
}

// wrappingListener hides the type of the connections that it accepts.
type wrappingListener struct{ net.Listener }

func (l wrappingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

func listen(t testing.TB, network, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve runs srv on ln until the test ends, and returns the address.
func serve(t testing.TB, srv *session.Server, ln net.Listener) string {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := testwait.Receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return ln.Addr().String()
}

var serverTLS = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
})

// over runs f as a subtest for each transport.
func over(t *testing.T, f func(t *testing.T, tr transport)) {
	t.Helper()
	overSome(t, func(transport) bool { return true }, f)
}

// overSome is over for the transports that which selects.
func overSome(t *testing.T, which func(transport) bool, f func(t *testing.T, tr transport)) {
	t.Helper()
	for _, tr := range transports {
		if which(tr) {
			t.Run(tr.name, func(t *testing.T) { f(t, tr) })
		}
	}
}

// overWaiting is overSome for tests that mostly wait: the subtests run in parallel. They share nothing.
func overWaiting(t *testing.T, which func(transport) bool, f func(t *testing.T, tr transport)) {
	t.Helper()
	overSome(t, which, func(t *testing.T, tr transport) {
		t.Parallel()
		f(t, tr)
	})
}

func every(transport) bool { return true }

func direct(tr transport) bool { return tr.direct }

// fixture is a server with one client. Everything ends with the test.
type fixture struct {
	srv     *session.Server
	dial    func() net.Conn
	tryDial func() (net.Conn, error)
	client  net.Conn
	s       *session.Session       // the client's session
	closed  chan session.CloseInfo // one value for each session that has ended
}

// newFixture wraps Open and Close of h.
func newFixture(t testing.TB, tr transport, c session.Codec, h session.Handler, o *session.Options) *fixture {
	t.Helper()
	f := &fixture{closed: make(chan session.CloseInfo, 1000)}
	opened := make(chan *session.Session, 1000)
	open, closing := h.Open, h.Close
	h.Open = func(s *session.Session) (err error) {
		if open != nil {
			err = open(s)
		}
		opened <- s
		return err
	}
	h.Close = func(s *session.Session, info *session.CloseInfo) {
		if closing != nil {
			closing(s, info)
		}
		f.closed <- *info
	}
	own := session.Options{}
	if o != nil {
		own = *o
	}
	own.Engine = tr.engine
	f.srv = session.NewServer(c, &h, &own)
	t.Cleanup(func() { _ = f.srv.Close() })
	dial := tr.start(t, f.srv)
	f.tryDial = func() (net.Conn, error) {
		conn, err := dial()
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(limit))
		}
		return conn, err
	}
	f.dial = func() net.Conn {
		conn, err := f.tryDial()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	f.client = f.dial()
	f.s = receive(t, opened)
	if !h.Pull { // a session that is received from is in one dispatch all the time
		await(t, func() bool { return !f.s.Handling() }) // Open is over
	}
	return f
}

// receive takes one value from ch, or fails.
func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return testwait.Receive(t, ch)
}

// expect reads exactly want from r.
func expect(t testing.TB, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(r, got)
	if err != nil || string(got) != want {
		t.Fatalf("received %.200q, %v; want %.200q", got[:n], err, want)
	}
}

// expectEnd reads from r until it ends, and returns the bytes that came before the end.
func expectEnd(t testing.TB, r io.Reader) string {
	t.Helper()
	rest, err := io.ReadAll(r)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		t.Fatalf("the connection did not end: %v", err)
	}
	return string(rest)
}

func write(t testing.TB, w io.Writer, p string) {
	t.Helper()
	if _, err := io.WriteString(w, p); err != nil {
		t.Fatal(err)
	}
}

// echo returns a handler that sends every message back.
func echo() session.Handler {
	return session.Handler{Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) }}
}

// line is the codec of most tests.
var line = codec.Line{Max: 1 << 20}

// smallBuffers keeps little in the kernel, so that a peer that does not read is noticed soon. (With much less, TCP waits for timers of its own.)
// The peer need not send anything.
func smallBuffers() *session.Options {
	return &session.Options{SendBuffer: 32 << 10, HandshakeTimeout: -1}
}

// await yields the processor until ok returns true.
func await(t testing.TB, ok func() bool) {
	t.Helper()
	testwait.True(t, "", ok)
}

// recorder keeps the log.
type recorder struct {
	mu  sync.Mutex
	out strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r *recorder) has(text string) bool { return strings.Contains(r.text(), text) }

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}
