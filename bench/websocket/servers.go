package main

import (
	"net"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/server"
	"github.com/sluice-push/sluice/session"
)

// rival is a server in Go.
type rival struct {
	name   string
	module string // whose it is; ours when empty
	start  func(ln net.Listener, broadcast bool) *server.Served
}

// secondWay is our server under net/http.
const secondWay = "sluice-http"

// rivals are the servers in Go, in the order of tables.
func rivals() []rival {
	return []rival{
		{name: "sluice-loop", start: startSluice(session.EngineLoop)},
		{name: "sluice-goroutine", start: startSluice(session.EngineGoroutine)},
		{name: secondWay, start: startSluiceHTTP},
		{name: "gws", module: "github.com/lxzan/gws", start: startGWS},
		{name: "gobwas", module: "github.com/gobwas/ws", start: startGobwas},
		{name: "gobwas-http", module: "github.com/gobwas/ws", start: startGobwasHTTP},
		{name: "gorilla", module: "github.com/gorilla/websocket", start: startGorilla},
		{name: "coder", module: "github.com/coder/websocket", start: startCoder},
		{name: "fasthttp", module: "github.com/fasthttp/websocket", start: startFastHTTP},
	}
}

// serverNames are all servers, in the order of tables.
func serverNames() []string {
	names := []string{load.Limit}
	for _, r := range rivals() {
		names = append(names, r.name)
	}
	return names
}

// modules are those of the others.
func modules() []string {
	var all []string
	for _, r := range rivals() {
		if r.module != "" {
			all = append(all, r.module)
		}
	}
	return all
}
