package main

import (
	"net"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/server"
	"github.com/sluice-push/sluice/session"
)

// starter starts a server in this process.
type starter func(net.Listener, protocol) (*server.Served, error)

// serverNames are all servers, in the order of tables.
func serverNames() []string {
	return []string{load.Limit, "net", "net-bufio", "net-bufio-pool", "net-raw", "netpoll", "sluice-loop", "sluice-goroutine"}
}

// starters are the servers in Go.
func starters() map[string]starter {
	return map[string]starter{
		"net":              startNet(unbuffered),
		"net-bufio":        startNet(buffered),
		"net-bufio-pool":   startNet(pooled),
		"net-raw":          startNet(raw),
		"netpoll":          startNetpoll,
		"sluice-loop":      startSluice(session.Options{Engine: session.EngineLoop}),
		"sluice-goroutine": startSluice(session.Options{Engine: session.EngineGoroutine}),
	}
}
