package gateway

import (
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/expiry"
	"github.com/sluice-push/sluice/timingwheel"
)

// agenda holds the time at which the heartbeat examines each client next: twice for each ping. If the heartbeat examined every client each
// second, it would find all of them outside the processor's caches.
type agenda struct {
	mu    sync.Mutex
	wheel *timingwheel.Wheel[*Client] // guarded by mu, as the clients' entries are
}

// beat is the heartbeat's state of one client.
type beat struct {
	entry timingwheel.Node[*Client] // the agenda's
	// Owned by the heartbeat.
	asked int64 // when the client was pinged, 0 when no answer is awaited
	next  int64 // when the client is pinged again, 0 before the first time
}

// A round of the wheel is as long as the usual interval between pings, and more.
const (
	agendaTick  = 100 * time.Millisecond
	agendaSlots = 512
)

func newAgenda() *agenda {
	return &agenda{wheel: timingwheel.NewWheel[*Client](agendaTick, agendaSlots)}
}

// enter schedules a client's first examination, at a time in milliseconds.
func (a *agenda) enter(c *Client, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.beat.entry.Value = c
	a.wheel.Schedule(&c.beat.entry, nanoseconds(at))
}

// move schedules a client's next examination; 0 means none. A client that has left stays out.
func (a *agenda) move(c *Client, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.beat.entry.Value != nil && at > 0 {
		a.wheel.Schedule(&c.beat.entry, nanoseconds(at))
	}
}

// advance is move for a client that may be scheduled already: it is examined at the earlier time.
func (a *agenda) advance(c *Client, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if entry := &c.beat.entry; entry.Value != nil && at > 0 && !(entry.Scheduled() && entry.At() <= nanoseconds(at)) {
		a.wheel.Schedule(entry, nanoseconds(at))
	}
}

// leave removes a client.
func (a *agenda) leave(c *Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wheel.Cancel(&c.beat.entry)
	c.beat.entry.Value = nil
}

// due appends the clients whose time has come, or is about to. They are off the agenda until they are moved.
func (a *agenda) due(now int64, to []*Client) []*Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wheel.Advance(nanoseconds(now)+int64(agendaTick), func(n *timingwheel.Node[*Client]) { to = append(to, n.Value) })
	return to
}

func nanoseconds(ms int64) int64 { return ms * int64(time.Millisecond) }

// heartbeat examines the clients whose time has come, once a second until the gateway closes.
func (g *Gateway) heartbeat() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var due []*Client
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			now := g.clock()
			due = g.agenda.due(now, due[:0])
			for _, c := range due {
				g.agenda.advance(c, c.examine(now))
			}
			clear(due)
			g.relieve()
		}
	}
}

// examine ends what has expired, see expire, and beats. It returns when to examine the client again, 0 if that is not needed.
func (c *Client) examine(now int64) (next int64) {
	if !c.expire(now) {
		return 0
	}
	next = c.pulse(now)
	if e := c.expiry.Load(); e != nil {
		next = expiry.Sooner(next, e.Next())
	}
	return next
}

// pulse pings the client when a ping is due. It ends a client that does not answer, or does not connect. It returns when to do so again, 0 if that
// is not needed.
func (c *Client) pulse(now int64) (next int64) {
	o, b := &c.gateway.options, &c.beat
	interval, patience := o.PingInterval.Milliseconds(), o.PongTimeout.Milliseconds()
	if c.kind.way == OneWay {
		patience = -1 // the client cannot answer
	}
	switch {
	case c.hub.Load() == nil && c.asked.Load():
		return 0 // CommandTimeout bounds the rest
	case c.hub.Load() == nil:
		if by := c.since + o.ConnectTimeout.Milliseconds(); now <= by {
			return by + 1
		}
		c.Disconnect(push.DisconnectStale)
		return 0
	case interval <= 0:
		return 0
	case b.asked == 0:
	case c.heard.Load() >= b.asked:
		b.asked = 0
	case patience > 0 && now-b.asked > patience:
		c.Disconnect(push.DisconnectNoPong)
		return 0
	}
	if b.next == 0 {
		b.next = c.connected + interval
	}
	if now+agendaTick.Milliseconds() > b.next { // a heartbeat that comes a bit early is not the one before
		b.next = now + interval
		// A client whose connection takes nothing is pinged when it does; until then the write time-out watches over it.
		if c.carrier.Ping() && b.asked == 0 {
			b.asked = now
		}
	}
	if b.asked > 0 && patience > 0 {
		return min(b.next, b.asked+patience+1)
	}
	return b.next
}
