package gateway

import (
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/websocket/wire"
)

// pingFrame is the server's ping: an empty reply.
var pingFrame = [][]byte{wire.AppendFrame(nil, wire.OpText, []byte("{}"))}

// agenda says when which WebSocket client is to be looked at next: twice for each ping. A look at each of them every second finds all of
// them cold, and cost a node with 10,000 clients as much as 500 deliveries.
type agenda struct {
	mu    sync.Mutex
	wheel *timingwheel.Wheel[*client] // guarded by mu, as the clients' entries are
}

// A round of the wheel is as long as the usual interval between pings, and more.
const (
	agendaTick  = 100 * time.Millisecond
	agendaSlots = 512
)

func newAgenda() *agenda {
	return &agenda{wheel: timingwheel.NewWheel[*client](agendaTick, agendaSlots)}
}

// enter has a client looked at for the first time, at a time in milliseconds.
func (a *agenda) enter(c *client, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.entry.Value = c
	a.wheel.Schedule(&c.entry, nanoseconds(at))
}

// move has a client looked at at another time; 0 is never again. One that has left stays out.
func (a *agenda) move(c *client, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.entry.Value != nil && at > 0 {
		a.wheel.Schedule(&c.entry, nanoseconds(at))
	}
}

// leave takes a client off.
func (a *agenda) leave(c *client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wheel.Cancel(&c.entry)
	c.entry.Value = nil
}

// due appends the clients whose time has come to to, or is about to. They are off the agenda until they are moved.
func (a *agenda) due(now int64, to []*client) []*client {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wheel.Advance(nanoseconds(now)+int64(agendaTick), func(n *timingwheel.Node[*client]) { to = append(to, n.Value) })
	return to
}

func nanoseconds(ms int64) int64 { return ms * int64(time.Millisecond) }

// heartbeat looks after the WebSocket clients whose time has come, once a second until the gateway closes.
func (g *Gateway) heartbeat() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var due []*client
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			now := g.clock()
			due = g.agenda.due(now, due[:0])
			for _, c := range due {
				g.agenda.move(c, c.beat(now))
			}
			clear(due)
			g.relieve()
		}
	}
}

// beat pings the client when it is time to, and ends it when it does not answer or does not say who it is. It returns when to look again, 0 if
// that is not needed.
func (c *client) beat(now int64) (next int64) {
	o := &c.gateway.options
	interval, patience := o.PingInterval.Milliseconds(), o.PongTimeout.Milliseconds()
	switch {
	case c.hub.Load() == nil:
		if by := c.since + o.ConnectTimeout.Milliseconds(); now <= by {
			return by + 1
		}
		c.Disconnect(push.DisconnectStale)
		return 0
	case interval <= 0:
		return 0
	case c.asked == 0:
	case c.heard.Load() >= c.asked:
		c.asked = 0
	case patience > 0 && now-c.asked > patience:
		c.Disconnect(push.DisconnectNoPong)
		return 0
	}
	if c.next == 0 {
		c.next = c.connected + interval
	}
	if now+agendaTick.Milliseconds() > c.next { // a heartbeat that comes a bit early is not the one before
		c.next = now + interval
		// A client whose socket takes nothing is pinged when it does; until then the write time-out watches over it.
		if taken, err := c.session.Load().TryWrite(pingFrame); err == nil && taken == 1 && c.asked == 0 {
			c.asked = now
		}
	}
	if c.asked > 0 && patience > 0 {
		return min(c.next, c.asked+patience+1)
	}
	return c.next
}
