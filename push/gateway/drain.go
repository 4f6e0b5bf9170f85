package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
)

// drainPeriod is the time between two steps of Drain.
const drainPeriod = 50 * time.Millisecond

// Drain asks all clients to connect again, to another node, at an even pace over a time: so the other nodes are not stormed. From the beginning no
// clients are admitted. It returns when all were asked, or ctx is done, with its error; Shutdown follows. Commands of clients that are still connected
// are answered. It may be called concurrently with everything but itself.
func (g *Gateway) Drain(ctx context.Context, over time.Duration) error {
	g.mu.Lock()
	g.draining = true
	g.mu.Unlock()
	g.arriving.Wait() // as in Shutdown
	clients := slices.Collect(g.clients())
	began := time.Now()
	tick := time.NewTicker(drainPeriod)
	defer tick.Stop()
	for asked := 0; asked < len(clients); {
		for due := drained(len(clients), time.Since(began), over); asked < due; asked++ {
			clients[asked].Disconnect(push.DisconnectShutdown)
			clients[asked] = nil // its memory is free before the last one is asked
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

// drained returns how many of n clients should have been asked after a part of a time, beginning with one at once.
func drained(n int, elapsed, over time.Duration) int {
	if elapsed >= over {
		return n
	}
	return min(n, 1+int(float64(n)*(float64(elapsed)/float64(over))))
}
