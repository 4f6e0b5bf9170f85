package loadtest

import (
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
)

// Deliveries to a client that is to stall do not count as received, even before it stalls, because none to it are expected.
func TestStallersAreNotReceived(t *testing.T) {
	spec := Spec{Shape: Slow, Clients: 10, Stalled: 0.5, Rate: 10}.withDefaults()
	g := newGroup(&job{Spec: spec, To: 10})
	defer g.close()
	g.measureFrom.Store(1)
	g.measureTo.Store(1 << 62)
	reading := uint64(0)
	for _, c := range g.clients {
		c.shard.mu.Lock()
		g.recordLatencyLocked(c, &delivery.Header{Seq: 1, Due: hostclock.Now()})
		c.shard.mu.Unlock()
		if !c.stalls {
			reading++
		}
	}
	received, live, stalled := uint64(0), int64(0), int64(0)
	for _, t := range g.shards {
		received += t.counts.Received
		live += t.live.TotalCount()
		stalled += t.stalled.TotalCount()
	}
	if received != reading || live != int64(reading) || stalled != 0 { //nolint:gosec // ten
		t.Errorf("%d clients read, but %d deliveries are received, %d live, %d stalled", reading, received, live, stalled)
	}
}
