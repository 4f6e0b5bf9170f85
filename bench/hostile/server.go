package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

const (
	patient    = time.Minute // the write time-out of servers
	sendBuffer = 64 << 10    // of the kernel, as the node sets it: without, it takes megabytes for a peer that does not read
)

func serverNames() []string {
	return []string{"lines-loop", "lines-goroutine", "websocket-loop", "websocket-goroutine", "sluice"}
}

// serve runs an echo server of the library until its input ends.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	proto, engine, _ := strings.Cut(args[0], "-")
	o := &session.Options{WriteTimeout: patient, SendBuffer: sendBuffer, Engine: session.EngineLoop}
	if engine == "goroutine" {
		o.Engine = session.EngineGoroutine
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var srv interface {
		Serve(net.Listener) error
		Close() error
	}
	if proto == "lines" {
		srv = session.NewServer(codec.Line{}, &session.Handler{Message: func(s *session.Session, m []byte) { _ = s.Send(m) }}, o)
	} else {
		srv = websocket.NewServer(&websocket.Handler{
			Message: func(c *websocket.Conn, m websocket.Message) { _ = c.Send(m.Op, m.Data) },
		}, &websocket.Options{Session: *o})
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	if err := json.NewEncoder(stdout).Encode(started{ln.Addr().String()}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	err = srv.Close()
	<-done
	return err
}

// target is a server that is attacked.
type target struct {
	proto, addr string
	tls         *tls.Config // of its clients; nil: none
	token       string      // of its clients; empty: they are anonymous
	pid         int
	stop        func() error
}

const nodeConfig = `
broker: {kind: memory}
auth: {anonymous: true}
limits: {write_timeout: 1m}
namespaces:
  - {name: ticks, history: {size: 100, age: 5m}, allow: {subscribe: [anonymous], publish: [anonymous], history: [], presence: []}}
`

func startServer(ctx context.Context, name, sluice string) (*target, error) {
	if name != "sluice" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		var first started
		p, err := child.Start(ctx, &first, self, "serve", name)
		if err != nil {
			return nil, err
		}
		proto, _, _ := strings.Cut(name, "-")
		return &target{proto: proto, addr: first.Addr, pid: p.PID(), stop: p.Stop}, nil
	}
	n, err := node.Start(sluice, nodeConfig)
	if err != nil {
		return nil, err
	}
	return &target{proto: "sluice", addr: n.Public, pid: n.PID(), stop: func() error { n.Stop(); return nil }}, nil
}

// usage is what a process takes.
type usage struct {
	threads, descriptors int
	resident             int64
}

func (t *target) usage() (u usage, err error) {
	proc := "/proc/" + strconv.Itoa(t.pid)
	for path, n := range map[string]*int{"/task": &u.threads, "/fd": &u.descriptors} {
		all, err := os.ReadDir(proc + path)
		if err != nil {
			return u, fmt.Errorf("the server is gone: %w", err)
		}
		*n = len(all)
	}
	u.resident, err = child.Resident(t.pid)
	return u, err
}
