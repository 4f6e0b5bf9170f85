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
	http   bool   // it runs under net/http
	second bool   // it is another way to open what a rival of the same module serves: only for the cell of that
	start  func(ln net.Listener, broadcast bool) *server.Served
}

// rivals are the servers in Go, in the order of tables.
func rivals() []rival {
	return []rival{
		{name: "sluice-loop", start: startSluice(session.EngineLoop)},
		{name: "sluice-goroutine", start: startSluice(session.EngineGoroutine)},
		{name: "sluice-http", http: true, second: true, start: startSluiceHTTP},
		{name: "gws", module: "github.com/lxzan/gws", http: true, start: startGWS},
		{name: "gobwas", module: "github.com/gobwas/ws", start: startGobwas},
		{name: "gobwas-http", module: "github.com/gobwas/ws", http: true, second: true, start: startGobwasHTTP},
		{name: "gorilla", module: "github.com/gorilla/websocket", http: true, start: startGorilla},
		{name: "coder", module: "github.com/coder/websocket", http: true, start: startCoder},
		{name: "fasthttp", module: "github.com/fasthttp/websocket", start: startFastHTTP},
	}
}

// find returns the rival with a name, or none.
func find(name string) rival {
	for _, r := range rivals() {
		if r.name == name {
			return r
		}
	}
	return rival{}
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
