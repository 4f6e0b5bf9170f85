package memory

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// Channels returns the number of channels with a log in a partition.
func (b *Broker) Channels(p broker.Partition) int {
	part, err := b.partitions.At(context.Background(), p)
	if err != nil {
		panic(err)
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	return len(part.channels)
}

// HeldLeases returns how many leases take memory, live or not.
func (b *Broker) HeldLeases() int {
	b.leases.mu.Lock()
	defer b.leases.mu.Unlock()
	return len(b.leases.byKey)
}

// Window shows the idempotency window to its property test.
type Window struct{ w window }

// IdempotencyWindow is how long a key is remembered.
const IdempotencyWindow = idempotencyWindow

// NewWindow returns a window that remembers at most so many keys.
func NewWindow(most int) *Window { return &Window{newWindow(most)} }

// Publish does what a publish with a key does: it returns the offset stored.
func (w *Window) Publish(key string, now time.Time, offset uint64) (stored uint64) {
	sum := digestOf("channel", key)
	if first, isDuplicate := w.w.look(*sum, now.UnixMilli()); isDuplicate {
		return first
	}
	w.w.add(*sum, now.UnixMilli(), offset)
	return offset
}

// Len returns how many entries the window's queue takes memory for.
func (w *Window) Len() int { return len(w.w.queue) }
