package main

import (
	"net"
	"net/http"
	"slices"

	"github.com/lxzan/gws"

	"github.com/sluice-push/sluice/bench/internal/server"
)

// gwsHandler handles the messages of gws.
type gwsHandler struct {
	gws.BuiltinEventHandler
	all       *group[*gws.Conn]
	broadcast bool
}

// OnMessage answers.
func (h *gwsHandler) OnMessage(c *gws.Conn, msg *gws.Message) {
	defer msg.Close() //nolint:errcheck // it returns a buffer
	if !h.broadcast {
		_ = c.WriteMessage(msg.Opcode, msg.Bytes()) // errors end the connection, says its documentation
		return
	}
	b := gws.NewBroadcaster(msg.Opcode, slices.Clone(msg.Bytes()))
	defer b.Close() //nolint:errcheck // likewise
	for _, one := range h.all.all() {
		_ = b.Broadcast(one)
	}
}

// startGWS starts a server of gws with its defaults, whose messages are not handled in parallel, so that answers keep their order, and
// with its Broadcaster.
func startGWS(ln net.Listener, broadcast bool) *server.Served {
	h := &gwsHandler{all: newGroup[*gws.Conn](), broadcast: broadcast}
	upgrader := gws.NewUpgrader(h, nil)
	return h.all.serve(ln, func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r)
		if err != nil {
			return
		}
		go h.all.run(c, c.NetConn().Close, c.ReadLoop)
	})
}
