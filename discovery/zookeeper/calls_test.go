package zookeeper_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/discovery/discoverytest"
	"github.com/sluice-push/sluice/discovery/zookeeper"
	"github.com/sluice-push/sluice/internal/testwait"
)

// Callers go on while servers, and ZooKeeper, come and go.
func TestCalls(t *testing.T) {
	s := newServer(t)
	discoverytest.RunCalls(t, &discoverytest.Operator{
		Connect: func(t *testing.T) discoverytest.Process {
			w := newWire(t, s.client)
			r, err := zookeeper.New([]string{w.ln.Addr().String()}, &zookeeper.Options{SessionTimeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			return discoverytest.Process{Registry: r, Die: func(discovery.Registration) { w.cut() }}
		},
		Restart: s.restart,
	})
}

// wire passes connections on, until it is cut. Nothing says to ZooKeeper then that the process at its other end has ended.
type wire struct {
	ln      net.Listener
	running sync.WaitGroup

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

// newWire makes a wire to an address, which is cut when the test ends.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, conns: map[net.Conn]bool{}}
	w.running.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() { w.pass(from, to) })
		}
	})
	t.Cleanup(func() {
		w.cut()
		testwait.Return(t, w.running.Wait)
	})
	return w
}

// pass passes one connection on.
func (w *wire) pass(from net.Conn, to string) {
	defer w.drop(from)
	there, err := net.Dial("tcp", to)
	if err != nil || !w.add(from) {
		return
	}
	defer w.drop(there)
	if !w.add(there) {
		return
	}
	w.running.Go(func() {
		_, _ = io.Copy(there, from)
		_ = there.Close()
		_ = from.Close()
	})
	_, _ = io.Copy(from, there)
}

// add notes a connection, and reports false if the wire is cut.
func (w *wire) add(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = true
	return !w.isCut
}

func (w *wire) drop(conn net.Conn) {
	_ = conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// cut ends all connections, and those to come.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	_ = w.ln.Close()
	for conn := range w.conns {
		_ = conn.Close()
	}
}
