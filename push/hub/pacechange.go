package hub

import (
	"context"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub/control"
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
	return h.tell(ctx, control.Message{Op: control.Pace, User: t.User, Client: t.Client, Channel: name, Interval: b.Interval, Bandwidth: b.Bandwidth})
}

// paceAll adds a change to the sessions of a target. An interval applies only to subscriptions that exist now.
//
// A goroutine may hold a session's lock while it waits for the client, and control messages must not wait. So a session applies its change in
// its next flush.
func (h *Hub) paceAll(target Target, name string, b pace.Bounds) {
	if b.Bandwidth != nil {
		for _, s := range h.list() {
			if target.Fits(&s.info) {
				h.changes.SetBandwidth(s, *b.Bandwidth)
				s.hasChanges.Store(true)
				s.wake()
			}
		}
	}
	n, err := h.namespaceOf(name)
	if b.Interval == nil || err != nil {
		return
	}
	if t := n.partition(name).topic(name); t != nil {
		for _, sub := range t.subscriptions() {
			if s := sub.session; target.Fits(&s.info) {
				h.changes.SetInterval(s, sub, *b.Interval)
				s.hasChanges.Store(true)
				s.wake()
			}
		}
	}
}

// takeChanges removes and returns the session's pending change.
func (s *Session) takeChanges() pace.Change[*Subscription] {
	s.hasChanges.Store(false) // before: a change that is added meanwhile sets it again
	return s.hub.changes.Take(s)
}

// applyChangesLocked applies the session's pending change.
func (s *Session) applyChangesLocked() {
	change := s.takeChanges()
	if s.closed {
		return
	}
	if change.Bandwidth != nil {
		s.setBandwidthLocked(s.hub.bandwidth(*change.Bandwidth))
	}
	for sub, interval := range change.Intervals {
		if slices.Contains(s.subs, sub) {
			s.setIntervalLocked(sub, interval)
		}
	}
}
