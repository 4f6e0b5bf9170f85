package discoverytest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// wire passes connections on to a registry, while it is not cut. A process whose wire is cut is, to the registry, one that was killed, or that no packet
// comes through from.
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
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, "listen", err)
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
		_ = ln.Close()
		w.running.Wait()
	})
	return w
}

func (w *wire) address() string { return w.ln.Addr().String() }

// pass passes one connection on.
func (w *wire) pass(from net.Conn, to string) {
	defer w.drop(from)
	there, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
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

// cut ends all connections, and those to come until it is mended.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// mend has connections passed on again.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}
