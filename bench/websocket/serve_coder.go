package main

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// coderConn is a connection of coder/websocket.
type coderConn struct{ *websocket.Conn }

func (c coderConn) next() (io.Reader, error) {
	_, r, err := c.Reader(context.Background())
	return r, err
}

func (c coderConn) send(msg []byte) error {
	return c.Write(context.Background(), websocket.MessageBinary, msg)
}

// startCoder starts a server of coder/websocket. It has no prepared messages.
func startCoder(ln net.Listener, broadcast bool) *server.Served {
	all := newGroup[coderConn]()
	var sends func([]byte)
	if broadcast {
		sends = toAll(all, func(msg []byte) ([]byte, error) { return msg, nil }, coderConn.send)
	}
	return all.serve(ln, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(1 << 20)
		c := coderConn{conn}
		go all.run(c, c.CloseNow, func() { answer(c, sends) })
	})
}
