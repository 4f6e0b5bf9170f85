package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/pace"
)

// Pace changes the bandwidth of clients, or the interval of their subscriptions to a channel, on all nodes. The namespaces and the hubs bound both.
// It returns when the nodes have been told, not when they have applied the change.
//
// Errors are *push.Error: bad request if the target is empty or an interval comes without a channel; internal.
func (h *Hub) Pace(ctx context.Context, t Target, name string, b pace.Bounds) error {
	if b.Interval != nil && name == "" {
		return push.ErrBadRequest.WithMessage("channel is missing: an interval applies to one subscription")
	}
	return h.tell(ctx, command{Op: "pace", User: t.User, Client: t.Client, Channel: name, Interval: b.Interval, Bandwidth: b.Bandwidth})
}

// paceChange is a pending change of a session's pace: the newest setting of each kind. A setting that is nil stays as it is.
type paceChange struct {
	bandwidth *int64
	intervals map[*Subscription]time.Duration // at most one for each subscription
}

// paceChanges are the changes that sessions have not applied yet. A goroutine may hold a session's lock while it waits for the client, and the
// goroutine that adds a change must not wait. So a session applies its change in its next flush.
type paceChanges struct {
	mu   sync.Mutex
	open map[*Session]*paceChange
}

func (o *paceChanges) add(s *Session, set func(*paceChange)) {
	o.mu.Lock()
	if o.open == nil {
		o.open = map[*Session]*paceChange{}
	}
	if o.open[s] == nil {
		o.open[s] = &paceChange{}
	}
	set(o.open[s])
	s.hasChanges.Store(true)
	o.mu.Unlock()
	s.wake()
}

// take removes and returns the change of a session.
func (o *paceChanges) take(s *Session) paceChange {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.hasChanges.Store(false)
	waiting := o.open[s]
	delete(o.open, s)
	if waiting == nil {
		return paceChange{}
	}
	return *waiting
}

// paceAll adds a change to the sessions of a target. An interval applies only to subscriptions that exist now.
func (h *Hub) paceAll(target Target, name string, b pace.Bounds) {
	if b.Bandwidth != nil {
		for _, s := range h.list() {
			if target.fits(&s.info) {
				h.changes.add(s, func(c *paceChange) { c.bandwidth = b.Bandwidth })
			}
		}
	}
	n, err := h.namespaceOf(name)
	if b.Interval == nil || err != nil {
		return
	}
	if t := n.partition(name).topic(name); t != nil {
		for _, sub := range t.subscriptions() {
			if target.fits(&sub.session.info) {
				h.changes.add(sub.session, func(c *paceChange) {
					if c.intervals == nil {
						c.intervals = map[*Subscription]time.Duration{}
					}
					c.intervals[sub] = *b.Interval
				})
			}
		}
	}
}

// applyChangesLocked applies the session's pending change.
func (s *Session) applyChangesLocked() {
	change := s.hub.changes.take(s)
	if s.closed {
		return
	}
	if change.bandwidth != nil {
		s.setBandwidthLocked(s.hub.bandwidth(*change.bandwidth))
	}
	for sub, interval := range change.intervals {
		if slices.Contains(s.subs, sub) {
			s.setIntervalLocked(sub, interval)
		}
	}
}
