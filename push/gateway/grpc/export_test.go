package grpc

import "github.com/sluice-push/sluice/push/gateway"

// MostCalls is how many calls a connection may have at a time.
const MostCalls = mostCalls

// MostOthers is how many calls of health checks and reflection may be open at a time.
const MostOthers = mostOthers

// Queued returns how many bytes wait to be written to the clients.
func (t *Transport) Queued() (most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.all {
		most = max(most, c.Queued())
	}
	return most
}

var _ gateway.Carrier = (*call)(nil)
