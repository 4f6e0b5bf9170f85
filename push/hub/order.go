package hub

import (
	"context"
	"slices"
	"sync"
	"time"

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

// order is what a session is to do when it comes to it: the newest of each kind.
type order struct {
	bandwidth *int64
	intervals map[*Subscription]time.Duration // at most one for each subscription
}

// orders are for sessions whose lock may be held by somebody who waits for their clients: who gives an order does not.
type orders struct {
	mu   sync.Mutex
	open map[*Session]*order
}

func (o *orders) give(s *Session, add func(*order)) {
	o.mu.Lock()
	if o.open == nil {
		o.open = map[*Session]*order{}
	}
	if o.open[s] == nil {
		o.open[s] = &order{}
	}
	add(o.open[s])
	s.ordered.Store(true)
	o.mu.Unlock()
	s.wake()
}

// take returns what a session is to do.
func (o *orders) take(s *Session) order {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.ordered.Store(false)
	waiting := o.open[s]
	delete(o.open, s)
	if waiting == nil {
		return order{}
	}
	return *waiting
}

// paceAll gives an order to those it is for. An interval is for those that are subscribed now.
func (h *Hub) paceAll(target Target, name string, b pace.Bounds) {
	if b.Bandwidth != nil {
		for _, s := range h.list() {
			if target.fits(&s.info) {
				h.orders.give(s, func(o *order) { o.bandwidth = b.Bandwidth })
			}
		}
	}
	if b.Interval == nil {
		return
	}
	for _, t := range h.topics() {
		if t.name != name {
			continue
		}
		for _, sub := range t.subscriptions() {
			if target.fits(&sub.session.info) {
				h.orders.give(sub.session, func(o *order) {
					if o.intervals == nil {
						o.intervals = map[*Subscription]time.Duration{}
					}
					o.intervals[sub] = *b.Interval
				})
			}
		}
	}
}

// obeyLocked does what the session was told.
func (s *Session) obeyLocked() {
	what := s.hub.orders.take(s)
	if s.closed {
		return
	}
	if what.bandwidth != nil {
		s.boundLocked(s.hub.bandwidth(*what.bandwidth))
	}
	for sub, interval := range what.intervals {
		if slices.Contains(s.subs, sub) {
			s.spaceLocked(sub, interval)
		}
	}
}
