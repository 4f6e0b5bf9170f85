package main

import (
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// gorillaConn is a connection of gorilla/websocket.
type gorillaConn struct{ *websocket.Conn }

func (c gorillaConn) next() (io.Reader, error) {
	_, r, err := c.NextReader()
	return r, err
}

func (c gorillaConn) send(msg []byte) error { return c.WriteMessage(websocket.BinaryMessage, msg) }

// startGorilla starts a server of gorilla/websocket, as its documentation recommends for many connections: buffers for writing come
// from a pool, those for reading are net/http's, and what goes to all is prepared once.
func startGorilla(ln net.Listener, broadcast bool) *server.Served {
	upgrader := websocket.Upgrader{WriteBufferPool: new(sync.Pool)}
	all := newGroup[gorillaConn]()
	var sends func([]byte)
	if broadcast {
		sends = toAll(all, func(msg []byte) (*websocket.PreparedMessage, error) {
			return websocket.NewPreparedMessage(websocket.BinaryMessage, msg)
		}, gorillaConn.WritePreparedMessage)
	}
	return all.serve(ln, func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		c := gorillaConn{conn}
		go all.run(c, c.Close, func() { answer(c, sends) })
	})
}
