package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// peer is a server in a process of its own. Its methods are for one goroutine.
type peer struct {
	address string
	pid     int
	push    bool // it speaks the client protocol of sluice
	gc      func() (server.Status, error)
	stop    func() error
	why     func(error) error // adds what the process has said to an error
}

// The node does not ping its clients, so that they rest, and admits all of them.
const config = `
broker: {kind: memory}
auth: {anonymous: true}
ping: {interval: 0s}
namespaces:
  - {name: ticks, mode: stream, history: {size: 100}, allow: {subscribe: [anonymous], publish: [api], history: [], presence: []}}
`

// startNode starts the command sluice.
func (c *costs) startNode(secure bool) (*peer, error) {
	conf := config
	if secure {
		conf += fmt.Sprintf("tls: {cert: %q, key: %q}\n", c.certificate.cert, c.certificate.key)
	}
	n, err := node.Start(c.binary, conf)
	if err != nil {
		return nil, err
	}
	m := &node.Measured{Node: n}
	return &peer{
		address: n.Public, pid: n.PID(), push: true,
		gc: func() (server.Status, error) { return m.Status("gc") },
		stop: func() error {
			n.Stop()
			return nil
		},
		why: func(err error) error { return fmt.Errorf("%w\n%s", err, n.Said()) },
	}, nil
}

// startOther starts a server besides sluice.
func (c *costs) startOther(ctx context.Context, name string, secure bool) (*peer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "-server", name}
	if secure {
		args = append(args, "-cert", c.certificate.cert, "-key", c.certificate.key)
	}
	var at server.Address
	p, err := child.Start(ctx, &at, program, args...)
	if err != nil {
		return nil, err
	}
	return &peer{
		address: at.Addr, pid: p.PID(),
		gc: func() (s server.Status, err error) {
			err = p.Ask(&s, "gc")
			return s, err
		},
		stop: p.Stop,
		why:  func(err error) error { return err },
	}, nil
}
