package nats

import "github.com/sluice-push/sluice/push/broker"

// Stats returns counters and state. It sends no request to the server, and does not ask the connections: their methods wait while an attempt to
// connect again is under way.
func (b *Broker) Stats() broker.Stats {
	s := broker.Stats{
		Kind:       "nats",
		Connected:  b.lost.Load() == 0 && b.ctx.Err() == nil,
		Reconnects: b.reconnects.Load(),
		Refused:    b.refused.Load(),
		Full:       b.full.Load(),
	}
	for _, p := range b.partitions.All() {
		s.Pending += p.window.underWay()
	}
	if b.host != nil {
		s.Stored, s.StoreLimit = b.host.room.used.Load(), max(b.host.room.limit.Load(), 0)
	}
	return s
}

// underWay returns how many publications are in the window.
func (w *window) underWay() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}
