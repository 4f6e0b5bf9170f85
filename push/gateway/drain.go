package gateway

import (
	"context"
	"slices"
	"time"
)

// drainPeriod is the time between two steps of Drain.
const drainPeriod = 50 * time.Millisecond

// Drain asks all clients to connect again, to another node, at an even pace over the given time, so that the other nodes do not get all of them at once.
// With Options.Routes, which must not name this node any more, clients are told to which, as by [Session.Move].
// From the beginning no new clients are admitted, and connections of a [Drainer] are told so. Commands of clients that are still connected are answered. Drain returns nil when all clients were
// asked, and the error of ctx if ctx is done first; then call Shutdown. It may be called concurrently with everything but itself.
func (g *Gateway) Drain(ctx context.Context, over time.Duration) error {
	g.mu.Lock()
	g.draining = true
	g.mu.Unlock()
	g.arriving.Wait() // clients that were admitted before are in the list, as in Shutdown
	for _, t := range g.transports {
		if d, ok := t.(Drainer); ok {
			d.Drain()
		}
	}
	clients := slices.Collect(g.clients())
	began := time.Now()
	tick := time.NewTicker(drainPeriod)
	defer tick.Stop()
	for asked := 0; asked < len(clients); {
		for due := drained(len(clients), time.Since(began), over); asked < due; asked++ {
			clients[asked].sendAway()
			clients[asked] = nil // so that its memory can be freed before the last one is asked
		}
		if asked == len(clients) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// drained returns how many of n clients have to be asked by now, when elapsed has passed of the time over. The first one is asked at once.
func drained(n int, elapsed, over time.Duration) int {
	if elapsed >= over {
		return n
	}
	return min(n, 1+int(float64(n)*(float64(elapsed)/float64(over))))
}
