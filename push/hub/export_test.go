package hub

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/presence"
)

// What the tests need to know of the bounds.
const (
	HeldMessages  = heldMessages
	RecentEntries = recentEntries
	Chunk         = chunk
)

// Allowance is what the log of a stream keeps for some seconds.
var Allowance = allowance

// Sweep runs the janitor's sweep as of a given time.
func (h *Hub) Sweep(now time.Time) { h.sweep(now.UnixMilli(), true) }

// Renew renews the leases as the renewer does.
func (h *Hub) Renew(ctx context.Context) { h.renew(ctx) }

// Budget is the janitor's budget of the logs.
type Budget = budget

// Enforce drops or shrinks channels until the logs are within the budget.
func (b *budget) Enforce(h *Hub) { b.enforce(h) }

// Measure updates Counts.LogBytes.
func (h *Hub) Measure() { _, _ = h.measure() }

// Holds returns the number of holds on a channel, or −1 if the channel is not loaded.
func (h *Hub) Holds(name string) int {
	n := h.namespaces[push.Namespace(name)]
	if n == nil {
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
	n := h.namespaces[push.Namespace(name)]
	if n == nil {
		return 0
	}
	return n.partition(name).applied.Load()
}

// ResetJoins has the partition of joins and leaves begin a new epoch.
func (h *Hub) ResetJoins() {
	h.namespaces[presence.EventNamespace].partitions[0].Reset(push.Position{Epoch: "another"})
}

// Acknowledged tells the partition of a channel of an acknowledged position.
func (h *Hub) Acknowledged(name string, at push.Position) {
	if n, err := h.namespaceOf(name); err == nil {
		n.partition(name).acknowledged(at)
	}
}

// Changes returns how many sessions have a pending change of pace.
func (h *Hub) Changes() int {
	return h.changes.Len()
}

// Waiting returns how many subscriptions wait in the session's pacer.
func (s *Session) Waiting() int {
	s.mu.Lock()
	defer s.unlock()
	return s.paced.pacer.Len()
}

// Rows returns the entries of a channel that is loaded.
func (h *Hub) Rows(name string) []*channel.Entry {
	n, err := h.namespaceOf(name)
	if err != nil {
		return nil
	}
	t := n.partition(name).topic(name)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return nil
	}
	return slices.Collect(t.log.Entries())
}
