package gateway

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/websocket/wire"
)

// pingFrame is the server's ping: an empty reply.
var pingFrame = [][]byte{wire.AppendFrame(nil, wire.OpText, []byte("{}"))}

// heartbeat looks after the WebSocket clients once a second until the gateway closes, and notes what waits for all clients.
func (g *Gateway) heartbeat() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			now, queued := g.clock(), 0
			for s := range g.server.Sessions() {
				s.Value().(*client).beat(now)
				queued += s.Queued()
			}
			g.mu.Lock()
			streams := slices.Collect(maps.Keys(g.streams))
			g.mu.Unlock()
			for _, s := range streams {
				queued += s.queuedBytes()
			}
			g.counts.queued.Store(int64(queued))
		}
	}
}

// beat pings the client when it is time to, and ends it when it does not answer or does not say who it is.
func (c *client) beat(now int64) {
	o := &c.gateway.options
	s := c.session.Load()
	switch {
	case s == nil: // just being set up
		return
	case c.hub.Load() == nil:
		if now-c.since > o.ConnectTimeout.Milliseconds() {
			c.Disconnect(push.DisconnectStale)
		}
		return
	case o.PingInterval <= 0:
		return
	case c.asked == 0:
	case c.heard.Load() >= c.asked:
		c.asked = 0
	case o.PongTimeout > 0 && now-c.asked > o.PongTimeout.Milliseconds():
		c.Disconnect(push.DisconnectNoPong)
		return
	}
	if c.next == 0 {
		c.next = now + o.PingInterval.Milliseconds()
	}
	if now < c.next {
		return
	}
	c.next = now + o.PingInterval.Milliseconds()
	// A client whose socket takes nothing is pinged when it does; until then the write time-out watches over it.
	if taken, err := s.TryWrite(pingFrame); err == nil && taken == 1 && c.asked == 0 {
		c.asked = now
	}
}
