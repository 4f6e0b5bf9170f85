// Command websocket-echo is a WebSocket server that sends every message back, on any path, compressed for those who can do that. With
// -broadcast every message goes to all connections, the sender's included.
package main

import (
	"flag"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket"
)

func main() {
	broadcast := flag.Bool("broadcast", false, "send every message to all connections")
	message := flag.Int("message", 64<<20, "the largest message in bytes")
	compress := flag.Bool("compress", true, "compress messages")
	engine := flag.Bool("goroutine", false, "give each connection a goroutine instead of an event loop")
	app := run.Start("127.0.0.1:7006")

	o := &websocket.Options{MaxMessage: *message, Origins: []string{"*"}}
	if *engine {
		o.Session.Engine = session.EngineGoroutine
	}
	if *compress {
		o.Compression = &websocket.Compression{Takeover: !*broadcast, PeerTakeover: true} // what all get is compressed once
	}
	var srv *websocket.Server
	h := &websocket.Handler{Message: echo}
	if *broadcast {
		o.Session.Policy = session.CloseSlow // who does not read must not hold up the others
		h.Message = func(_ *websocket.Conn, m websocket.Message) { toAll(srv, m) }
	}
	srv = websocket.NewServer(h, o)
	app.AtEnd(srv.Shutdown)
	app.Exit(srv.Serve(app.Listener))
}

// echo sends a message back. If that fails the connection is over, and there is nobody to tell.
func echo(c *websocket.Conn, m websocket.Message) { _ = c.Send(m.Op, m.Data) }

// toAll sends a message to everybody. The data is the handler's only until it returns, and is kept for those who read slowly.
func toAll(srv *websocket.Server, m websocket.Message) {
	websocket.Broadcast(websocket.Prepare(m.Op, append([]byte(nil), m.Data...)), srv.Conns(), nil)
}
