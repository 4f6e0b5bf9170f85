package main

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// group are the connections of a server that does not keep them itself, each with a goroutine.
type group[C comparable] struct {
	running sync.WaitGroup
	mu      sync.Mutex
	conns   map[C]func() error // guarded by mu; how to close it; nil when the group is closed
}

func newGroup[C comparable]() *group[C] { return &group[C]{conns: make(map[C]func() error)} }

// run calls serve for a connection, and returns with it. Afterwards the connection is closed.
func (g *group[C]) run(c C, closes func() error, serve func()) {
	defer closes() //nolint:errcheck // what ends a connection is the client's business: it checks all that it gets
	g.mu.Lock()
	if g.conns == nil {
		g.mu.Unlock()
		return
	}
	g.conns[c] = closes
	g.running.Add(1)
	g.mu.Unlock()
	defer g.running.Done()
	serve()
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
}

func (g *group[C]) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// all returns the connections.
func (g *group[C]) all() []C {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.AppendSeq(make([]C, 0, len(g.conns)), maps.Keys(g.conns))
}

// close closes the connections and waits for their goroutines.
func (g *group[C]) close() {
	g.mu.Lock()
	conns := g.conns
	g.conns = nil
	g.mu.Unlock()
	for _, closes := range conns {
		_ = closes()
	}
	g.running.Wait()
}

// serve is the server of the group's connections.
func (g *group[C]) serve(ln net.Listener, h http.HandlerFunc) *server.Served {
	stop := server.UnderHTTP(ln, h)
	return &server.Served{Conns: g.len, Close: func() {
		stop()
		g.close()
	}}
}

// reader is a connection of packages that give each message as an io.Reader.
type reader interface {
	next() (io.Reader, error)
	send(msg []byte) error
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// toAll returns a function that sends a message to all connections of a group, prepared once.
func toAll[C comparable, P any](g *group[C], prepare func(msg []byte) (P, error), send func(C, P) error) func(msg []byte) {
	return func(msg []byte) {
		p, err := prepare(msg)
		if err != nil {
			return // nothing arrives, and the client complains
		}
		for _, c := range g.all() {
			_ = send(c, p) // who is gone is found out by its own goroutine
		}
	}
}

// answer sends each message back, or gives it to all if that is not nil, until the connection ends. A buffer is borrowed once a message
// is here.
func answer(c reader, all func(msg []byte)) {
	for {
		r, err := c.next()
		if err != nil {
			return
		}
		b := buffers.Get().(*bytes.Buffer)
		b.Reset()
		_, err = b.ReadFrom(r)
		switch {
		case err != nil:
		case all != nil:
			all(b.Bytes())
		default:
			err = c.send(b.Bytes())
		}
		buffers.Put(b)
		if err != nil {
			return
		}
	}
}
