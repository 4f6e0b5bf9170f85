package hub

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
)

// What the tests need to know of the bounds.
const (
	HeldMessages  = heldMessages
	RecentEntries = recentEntries
	Stretch       = stretch
)

// Spare is what the log of a stream keeps for some seconds.
var Spare = spare

// Sweep is the janitor's round at some time, without waiting for it.
func (h *Hub) Sweep(now time.Time) { h.sweep(now.UnixMilli(), true) }

// Renew is the renewer's round.
func (h *Hub) Renew(ctx context.Context) { h.renew(ctx) }

// Budget is the janitor's look at how much the logs hold.
type Budget = budget

// Enforce is one such look.
func (b *budget) Enforce(h *Hub) { b.enforce(h) }

// Measure has Stats know what the logs hold just now.
func (h *Hub) Measure() { _, _ = h.measure() }

// Holds returns how many hold a channel, −1 when it is not there.
func (h *Hub) Holds(name string) int {
	n, err := h.namespaceOf(name)
	if err != nil {
		return -1
	}
	t := n.partition(name).topic(name)
	if t == nil {
		return -1
	}
	return int(t.holds.Load())
}

// Applied returns how far the partition of a channel has come.
func (h *Hub) Applied(name string) uint64 {
	n, err := h.namespaceOf(name)
	if err != nil {
		return 0
	}
	return n.partition(name).applied.Load()
}

// Acknowledged has the partition of a channel note what was promised.
func (h *Hub) Acknowledged(name string, at push.Position) {
	if n, err := h.namespaceOf(name); err == nil {
		n.partition(name).acknowledged(at)
	}
}

// Orders returns for how many sessions there are orders.
func (h *Hub) Orders() int {
	h.orders.mu.Lock()
	defer h.orders.mu.Unlock()
	return len(h.orders.open)
}

// Waiting returns how many subscriptions wait for a turn.
func (s *Session) Waiting() int {
	s.mu.Lock()
	defer s.unlock()
	return s.paced.pacer.Len()
}
