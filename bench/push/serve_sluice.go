package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// config is of a node to which anonymous clients may come, subscribe and publish. Presence is off: no other server here has it.
const config = `
broker: {kind: %s}
auth: {anonymous: true}
limits: {commands_per_session: 0, commands_per_address: 0}
namespaces:
  - {name: ticks, history: {%s}, allow: {subscribe: [anonymous], publish: [anonymous], history: [], presence: []}}
`

// What is kept of a channel: as much as without a word about it, and so much that it is all there after half a minute.
const (
	usualHistory = "size: 100, age: 5m"
	shortHistory = "size: 100, age: 30s"
)

// startNode starts sluice with a broker, a history and more flags, and waits until it is ready.
func startNode(binary, broker, history string, flags ...string) (*node.Measured, error) {
	n, err := node.Start(binary, fmt.Sprintf(config, broker, history), flags...)
	if err != nil {
		return nil, err
	}
	return &node.Measured{Node: n}, nil
}

// startSluice starts sluice for the bench. If it is patient it does not cut clients that neither read nor answer,
// and soon keeps as much as it ever will.
func startSluice(binary, broker string, patient bool) (*server.Served, error) {
	history := usualHistory
	if patient {
		history = shortHistory
		// The node inherits it.
		if err := errors.Join(os.Setenv("SLUICE_LIMITS_WRITE_TIMEOUT", "1h"), os.Setenv("SLUICE_PING_INTERVAL", "0s")); err != nil {
			return nil, err
		}
	}
	n, err := startNode(binary, broker, history)
	if err != nil {
		return nil, err
	}
	return &server.Served{Addr: n.Public, PID: n.PID(), Status: n.Status, Close: n.Stop}, nil
}
