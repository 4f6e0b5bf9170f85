package main

import (
	"net"

	"github.com/sluice-push/sluice/session"
)

// limit is the server that the others are compared with. It is a program in C.
const limit = "c"

// starter starts a server in this process.
type starter func(net.Listener, protocol) (*served, error)

// serverNames are all servers, in the order of tables.
func serverNames() []string {
	return []string{limit, "net", "net-bufio", "net-bufio-pool", "net-raw", "netpoll", "sluice-loop", "sluice-goroutine"}
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
