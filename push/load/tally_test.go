package load

import (
	"testing"

	"github.com/sluice-push/sluice/internal/hostclock"
)

// What comes to a client that is to stop reading is not among what is received, even before it has stopped: nothing of it is expected.
func TestStallersAreNotReceived(t *testing.T) {
	spec := Spec{Shape: Slow, Clients: 10, Stalled: 0.5, Rate: 10}.withDefaults()
	g := newGroup(&job{Spec: spec, To: 10})
	defer g.close()
	g.measureFrom.Store(1)
	g.measureTo.Store(1 << 62)
	reading := uint64(0)
	for _, c := range g.clients {
		c.tally.mu.Lock()
		g.timeLocked(c, &stamp{seq: 1, due: hostclock.Now()})
		c.tally.mu.Unlock()
		if !c.stalls {
			reading++
		}
	}
	received, live, stalled := uint64(0), int64(0), int64(0)
	for _, t := range g.tallies {
		received += t.counts.Received
		live += t.live.TotalCount()
		stalled += t.stalled.TotalCount()
	}
	if received != reading || live != int64(reading) || stalled != 0 { //nolint:gosec // ten
		t.Errorf("%d clients read, but %d deliveries are received, %d live, %d stalled", reading, received, live, stalled)
	}
}
