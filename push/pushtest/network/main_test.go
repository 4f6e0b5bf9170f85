package network_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/pushtest/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event. It measures nothing: a test that reaches it has failed.
const patience = 60 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a proxy before a target, whose connections the test gets.
type world struct {
	t        *testing.T
	proxy    *network.Proxy
	accepted chan *net.TCPConn
}

func newWorld(t *testing.T, c network.Conditions) *world {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &world{t: t, accepted: make(chan *net.TCPConn, 100)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			w.accepted <- conn.(*net.TCPConn)
		}
	})
	t.Cleanup(func() {
		must(t, ln.Close())
		testwait.Return(t, accepting.Wait)
		for close(w.accepted); ; {
			conn, ok := <-w.accepted
			if !ok {
				return
			}
			_ = conn.Close()
		}
	})
	w.proxy, err = network.Listen("", ln.Addr().String(), c)
	must(t, err)
	t.Cleanup(func() {
		must(t, w.proxy.Close())
		s := w.proxy.Stats()
		if s.Open != 0 || s.Up.Taken != s.Up.Delivered+s.Up.Lost || s.Down.Taken != s.Down.Delivered+s.Down.Lost {
			t.Errorf("after Close: %+v", s)
		}
	})
	return w
}

// dial connects to the proxy.
func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.proxy.Addr().String())
	must(w.t, err)
	return w.kept(conn.(*net.TCPConn))
}

// kept sets a deadline for a connection, and closes it at the end of the test.
func (w *world) kept(conn *net.TCPConn) *net.TCPConn {
	w.t.Helper()
	w.t.Cleanup(func() { _ = conn.Close() })
	must(w.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// join makes a connection through the proxy and returns its ends.
func (w *world) join() (client, server *net.TCPConn, through *network.Conn) {
	w.t.Helper()
	client = w.dial()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case conn := <-w.accepted:
		server = w.kept(conn)
	case <-timer.C:
		w.t.Fatal("the target is not connected to")
	}
	testwait.True(w.t, "the proxy knows its connection", func() bool {
		for _, c := range w.proxy.Conns() {
			if c.Client().String() == client.LocalAddr().String() {
				through = c
			}
		}
		return through != nil
	})
	return client, server, through
}

// send writes in a goroutine of its own; wait returns the error.
func send(conn *net.TCPConn, p []byte, end bool) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Write(p)
		if err == nil && end {
			err = conn.CloseWrite()
		}
		done <- err
	}()
	return func() error { return <-done }
}

// expect reads the expected bytes.
func expect(t *testing.T, conn *net.TCPConn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes came, or others: %v", n, len(want), err)
	}
}

// noise returns bytes that do not repeat.
func noise(n int, seed uint64) []byte {
	var key [32]byte
	key[0] = byte(seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p)
	return p
}

// settled waits until no bytes are under way.
func settled(t testing.TB, c *network.Conn) (up, down network.Flow) {
	t.Helper()
	testwait.True(t, "nothing is under way", func() bool {
		up, down = c.Stats()
		return up.Taken == up.Delivered+up.Lost && down.Taken == down.Delivered+down.Lost
	})
	return up, down
}

// refusal connects to a proxy that refuses connections, and returns the error. The reset may arrive before the client knows that the connection
// is made.
func refusal(p *network.Proxy) error {
	conn, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
