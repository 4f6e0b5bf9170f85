package main

import (
	"io"
	"net"
	"sync"

	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// fastConn is a connection of fasthttp/websocket, which is gorilla/websocket under another server.
type fastConn struct{ *websocket.Conn }

func (c fastConn) next() (io.Reader, error) {
	_, r, err := c.NextReader()
	return r, err
}

func (c fastConn) send(msg []byte) error { return c.WriteMessage(websocket.BinaryMessage, msg) }

// startFastHTTP starts a server of fasthttp/websocket, as startGorilla does.
func startFastHTTP(ln net.Listener, broadcast bool) *server.Served {
	upgrader := websocket.FastHTTPUpgrader{WriteBufferPool: new(sync.Pool)}
	all := newGroup[fastConn]()
	var sends func([]byte)
	if broadcast {
		sends = toAll(all, func(msg []byte) (*websocket.PreparedMessage, error) {
			return websocket.NewPreparedMessage(websocket.BinaryMessage, msg)
		}, fastConn.WritePreparedMessage)
	}
	srv := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		// An error is the client's, which was answered.
		_ = upgrader.Upgrade(ctx, func(conn *websocket.Conn) {
			c := fastConn{conn}
			all.run(c, c.Close, func() { answer(c, sends) })
		})
	}}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	return &server.Served{Conns: all.len, Close: func() {
		_ = ln.Close()
		<-done
		all.close()
	}}
}
