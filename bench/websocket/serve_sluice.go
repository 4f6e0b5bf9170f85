package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-push/sluice/bench/internal/server"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/websocket"
)

// newSluice returns our server.
func newSluice(engine session.Engine, broadcast bool) *websocket.Server {
	var srv *websocket.Server
	h := &websocket.Handler{Message: func(c *websocket.Conn, m websocket.Message) {
		// Errors end the connection, and are the client's business: it checks all that it gets.
		if !broadcast {
			_ = c.Send(m.Op, m.Data)
			return
		}
		p := websocket.Prepare(m.Op, slices.Clone(m.Data))
		websocket.Broadcast(p, srv.Conns(), nil)
	}}
	// The default time for the first bytes is too short for those who count what thousands of silent connections cost.
	srv = websocket.NewServer(h, &websocket.Options{Session: session.Options{Engine: engine, FirstTimeout: time.Minute}})
	return srv
}

// startSluice starts our server on bare connections.
func startSluice(engine session.Engine) func(net.Listener, bool) *server.Served {
	return func(ln net.Listener, broadcast bool) *server.Served {
		srv := newSluice(engine, broadcast)
		done := make(chan error, 1)
		own := listen(ln)
		go func() { done <- srv.Serve(own) }()
		return &server.Served{Addr: own.Addr().String(), Conns: srv.Len, Close: func() {
			_ = srv.Close()
			<-done
		}}
	}
}

// listen returns a listener of ours in place of ln, as our documentation recommends.
func listen(ln net.Listener) *transport.Listener {
	_ = ln.Close()
	own, err := transport.Listen(context.Background(), "tcp", ln.Addr().String(), nil)
	if err != nil {
		panic(err) // somebody has taken the port
	}
	return own
}

// startSluiceHTTP starts our server under net/http.
func startSluiceHTTP(ln net.Listener, broadcast bool) *server.Served {
	srv := newSluice(session.EngineLoop, broadcast)
	every := func(*http.Request) http.Handler { return srv }
	stop := server.UnderHTTP(websocket.NewUpgradeListener(ln, every, nil), srv.ServeHTTP)
	return &server.Served{Conns: srv.Len, Close: func() {
		stop()
		_ = srv.Close()
	}}
}
