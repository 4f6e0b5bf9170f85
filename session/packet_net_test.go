package session_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport/udp"
	"github.com/sluice-push/sluice/workerpool"
)

// packetKind is a kind of socket, and an engine for its sessions. Tests of datagrams run over all kinds that they can use.
type packetKind struct {
	name     string
	listen   func(t testing.TB) net.PacketConn
	executor bool
}

var packetKinds = []packetKind{
	{"batches", listenBatches, false},
	{"plain", listenPlain, false},
	{"wrapped", func(t testing.TB) net.PacketConn { return struct{ net.PacketConn }{listenPlain(t)} }, false},
	{"batches executor", listenBatches, true},
	{"plain executor", listenPlain, true},
}

func listenBatches(t testing.TB) net.PacketConn {
	t.Helper()
	pc, err := udp.Listen(context.Background(), "udp4", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	return pc
}

func listenPlain(t testing.TB) net.PacketConn {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return pc
}

func overPackets(t *testing.T, f func(t *testing.T, kind packetKind)) {
	for _, kind := range packetKinds {
		t.Run(kind.name, func(t *testing.T) { f(t, kind) })
	}
}

// packetFixture is a server over datagrams.
type packetFixture struct {
	srv    *session.Server
	at     net.Addr
	served chan error
}

// servePackets runs a server until the test ends.
func servePackets(t testing.TB, kind packetKind, h *session.Handler, o *session.Options) *packetFixture {
	t.Helper()
	var own session.Options
	if o != nil {
		own = *o
	}
	if kind.executor {
		pool := workerpool.NewElastic(nil)
		t.Cleanup(func() { _ = pool.Close() })
		own.Executor = pool
	}
	pc := kind.listen(t)
	f := &packetFixture{srv: session.NewServer(line, h, &own), at: pc.LocalAddr(), served: make(chan error, 1)}
	go func() { f.served <- f.srv.ServePacket(pc) }()
	t.Cleanup(func() { _ = f.srv.Close() })
	return f
}

// dial returns the connection of a new peer.
func (f *packetFixture) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("udp", f.at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// expectPacket reads one datagram, which must be want.
func expectPacket(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 65_536)
	n, err := conn.Read(b)
	if err != nil || string(b[:n]) != want {
		t.Fatalf("received %.200q, %v; want %.200q", b[:n], err, want)
	}
}

// wire is a net.PacketConn in memory whose addresses are names.
type wire struct {
	mu    sync.Mutex
	cond  sync.Cond
	queue []wirePacket
	by    time.Time
	timer *time.Timer
	over  bool
	sent  chan wirePacket
}

type wirePacket struct {
	peer wireName
	data string
}

type wireName string

func (wireName) Network() string  { return "wire" }
func (n wireName) String() string { return string(n) }

func newWire() *wire {
	w := &wire{sent: make(chan wirePacket, 1000)}
	w.cond.L = &w.mu
	return w
}

// deliver makes the socket receive a datagram.
func (w *wire) deliver(peer, data string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, wirePacket{wireName(peer), data})
	w.cond.Broadcast()
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.over:
			return 0, nil, net.ErrClosed
		case !w.by.IsZero() && !time.Now().Before(w.by):
			return 0, nil, os.ErrDeadlineExceeded
		case len(w.queue) > 0:
			p := w.queue[0]
			w.queue = w.queue[1:]
			return copy(b, p.data), p.peer, nil
		}
		w.cond.Wait()
	}
}

func (w *wire) WriteTo(b []byte, to net.Addr) (int, error) {
	w.sent <- wirePacket{to.(wireName), string(b)}
	return len(b), nil
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cond.Broadcast()
	return nil
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by = t
	if w.timer != nil {
		w.timer.Stop()
	}
	if !t.IsZero() {
		w.timer = time.AfterFunc(time.Until(t), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cond.Broadcast()
		})
	}
	return nil
}

func (*wire) LocalAddr() net.Addr              { return wireName("here") }
func (*wire) SetDeadline(time.Time) error      { return nil }
func (*wire) SetWriteDeadline(time.Time) error { return nil }
