package hub

import (
	"context"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/pace"
)

// Pace changes how clients are served, on all nodes, within what the namespaces and the hubs allow: the bandwidth of connections, the
// interval of their subscriptions to a channel. It returns when the nodes have been told, not when they have done it.
//
// Errors are *push.Error: bad request when the target is empty, or an interval comes without a channel; internal.
func (h *Hub) Pace(ctx context.Context, t Target, name string, b pace.Bounds) error {
	if b.Interval != nil && name == "" {
		return push.ErrBadRequest.WithMessage("an interval is of a subscription: the channel is missing")
	}
	return h.tell(ctx, command{Op: "pace", User: t.User, Client: t.Client, Channel: name, Interval: b.Interval, Bandwidth: b.Bandwidth})
}

// order is what a session is to do when it comes to it.
type order struct {
	channel string
	bounds  pace.Bounds
}

// orders are for sessions whose lock may be held by somebody who waits for their clients: who gives an order does not.
type orders struct {
	mu   sync.Mutex
	open map[*Session][]order
}

// keptOrders is how many orders wait for a session at most. What it is told beyond that takes the place of the last one.
const keptOrders = 64

func (o *orders) give(s *Session, what order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[*Session][]order{}
	}
	waiting := o.open[s]
	if len(waiting) == keptOrders {
		waiting = waiting[:keptOrders-1]
	}
	o.open[s] = append(waiting, what)
	s.ordered.Store(true)
}

// take returns what a session is to do.
func (o *orders) take(s *Session) []order {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.ordered.Store(false)
	waiting := o.open[s]
	delete(o.open, s)
	return waiting
}

// paceAll gives an order to those it is for.
func (h *Hub) paceAll(target Target, what order) {
	for _, s := range h.list() {
		if target.fits(&s.info) {
			h.orders.give(s, what)
			s.wake()
		}
	}
}

// obeyLocked does what the session was told.
func (s *Session) obeyLocked() {
	for _, what := range s.hub.orders.take(s) {
		if s.closed {
			return
		}
		if what.bounds.Bandwidth != nil {
			s.boundLocked(s.hub.bandwidth(*what.bounds.Bandwidth))
		}
		if what.bounds.Interval == nil {
			continue
		}
		if sub := s.find(what.channel); sub != nil {
			s.spaceLocked(sub, *what.bounds.Interval)
		}
	}
}
