package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/websocket/wire"
)

// client is one WebSocket connection. It is the carrier of its hub session.
type client struct {
	gateway *Gateway
	codec   wire.Codec
	request *http.Request // of the handshake; without body, released once the client has connected
	addr    netip.Addr    // as it was admitted
	from    *caller
	since   int64                           // when the connection was made, by the gateway's clock, as all times below
	session atomic.Pointer[session.Session] // set by Open, before anything is received

	hub   atomic.Pointer[hub.Session] // set when the client has connected
	ended atomic.Bool                 // somebody has said goodbye to it
	heard atomic.Int64                // when something last came from it

	connected int64 // when it did; set before hub is

	commands bucket // owned by who handles its messages

	entry timingwheel.Node[*client] // the agenda's
	// owned by the heartbeat
	asked int64 // when it was pinged, 0 when no answer is awaited
	next  int64 // when it is pinged again, 0 before the first time
}

func (g *Gateway) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	if speaksProtobuf(r) {
		g.counts.request.Add(1)
		refuse(w, r, http.StatusBadRequest, "this node does not speak the Protobuf form of the protocol yet: use JSON")
		return
	}
	addr := addressOf(r.RemoteAddr)
	if err := g.admit(addr); err != nil {
		comeAgain(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer g.arriving.Done()
	c := &client{gateway: g, addr: addr, from: g.callerOf(addr), since: g.clock()}
	up, err := g.websockets.Upgrade(&c.codec, w, r)
	if err != nil {
		g.leave(addr)
		g.countRefused(err, r)
		g.options.Logger.Debug("a WebSocket handshake was refused", "remote", r.RemoteAddr, "error", err)
		return
	}
	c.request = r.WithContext(context.Background())
	if _, err := g.server.ServeConn(up.Conn, &session.Attach{Codec: &c.codec, Initial: up.Unread, Value: c}); err != nil {
		g.leave(addr)
	}
}

// opened is called when the connection is a session.
func (c *client) opened(s *session.Session) {
	c.session.Store(s)
	c.gateway.agenda.enter(c, c.since+c.gateway.options.ConnectTimeout.Milliseconds()+1)
}

// info is who the client is, once it has connected.
func (c *client) info() push.ClientInfo { return c.hub.Load().Info() }

// message handles one WebSocket message: a frame of commands.
func (c *client) message(frame []byte) {
	c.heard.Store(c.gateway.clock())
	for {
		line, rest := protocol.NextLine(frame)
		if line == nil {
			return
		}
		frame = rest
		if !c.command(line) {
			return
		}
	}
}

// writable is called when the socket takes frames again.
func (c *client) writable() {
	if h := c.hub.Load(); h != nil {
		h.Flush()
	}
}

// closed ends what the connection began.
func (c *client) closed(info *session.CloseInfo) {
	if !c.ended.Swap(true) {
		c.gateway.counts.countEnd(info)
	}
	if h := c.hub.Load(); h != nil {
		h.Close()
	}
	c.gateway.agenda.leave(c)
	c.gateway.leave(c.addr)
}

// TryWrite implements hub.Carrier.
func (c *client) TryWrite(frames []hub.Frame) int {
	var few [32][]byte // a client of more channels that change all at once is worth the memory
	raw := few[:0]
	for i := range frames {
		raw = append(raw, frames[i].Bytes)
	}
	taken, err := c.session.Load().TryWrite(raw)
	if err != nil {
		return 0
	}
	return taken
}

// TryWriteAll implements hub.Volleyer.
func (c *client) TryWriteAll(offers []hub.Offer) {
	var room [64]session.Offer
	for len(offers) > 0 {
		some, mine := offers[:min(len(offers), len(room))], room[:0]
		offers = offers[len(some):]
		for i := range some {
			if of, ok := some[i].Carrier.(*client); ok {
				mine = append(mine, session.Offer{Session: of.session.Load(), Frame: some[i].Frame.Bytes})
			}
		}
		session.TryWriteAll(mine)
		for i := range some {
			if o := &some[i]; isClient(o.Carrier) {
				o.Taken, mine = mine[0].Taken, mine[1:]
			} else {
				o.Taken = o.Carrier.TryWrite([]hub.Frame{*o.Frame}) == 1
			}
		}
	}
}

func isClient(c hub.Carrier) bool {
	_, ok := c.(*client)
	return ok
}

// Disconnect implements hub.Carrier. It may be called by anybody, any number of times; the first call counts.
func (c *client) Disconnect(d push.Disconnect) {
	if s := c.session.Load(); s != nil && !c.ended.Swap(true) {
		c.gateway.counts.disconnected[WebSocket].Add(uint32(d.Code))
		s.EndWait(c.codec.AppendClose(nil, d.Code, d.Reason), d)
		if h := c.hub.Load(); h != nil {
			c.gateway.endSoon(h)
		}
	}
}

// endSoon ends a client in the hub that may take its time to answer its close frame, so that it is not present any more. It does not wait: the
// caller may have the session's lock. When the gateway shuts down all have to answer, and end then.
func (g *Gateway) endSoon(h *hub.Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closing {
		g.leaving.Go(h.Close)
	}
}

// drain sends the client elsewhere. It may come before Open, which is then not called any more.
func (c *client) drain(s *session.Session) {
	c.session.Store(s)
	c.Disconnect(push.DisconnectShutdown)
}

// keptReply is the largest buffer that is kept for replies to come.
const keptReply = 16 << 10

// reply sends an answer. It waits while the client does not read, which is what keeps it from sending more commands. An error says
// that the connection is over.
func (c *client) reply(r *protocol.Reply) error {
	pool := &c.gateway.buffers
	buf, ok := pool.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	*buf = protocol.AppendReply((*buf)[:0], r)
	err := c.session.Load().Send(*buf)
	if cap(*buf) <= keptReply {
		pool.Put(buf)
	}
	if err != nil {
		return &gone{err}
	}
	return nil
}

// gone is why an answer could not be sent: there is no one left to whom it could be said.
type gone struct{ error }

// refuse answers a command with an error, or ends the connection when that is what the error says. It reports whether the
// connection goes on.
func (c *client) refuse(id uint32, err error) bool {
	var d push.Disconnect
	var e *push.Error
	if over := new(gone); errors.As(err, &over) || c.gateway.ctx.Err() != nil {
		return false
	}
	switch {
	case errors.As(err, &d):
		c.Disconnect(d)
		return false
	case !errors.As(err, &e):
		c.gateway.options.Logger.Error("a command failed", "error", err)
		e = push.ErrInternal
	}
	c.gateway.counts.errors.Add(e.Code)
	return id == 0 || c.reply(&protocol.Reply{ID: id, Error: e}) == nil
}
