package tcp

import (
	"iter"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/sessionconn"
	"github.com/sluice-push/sluice/session"
)

// RefusedMost is how many refused connections may linger.
const RefusedMost = refusedMost

// NewFramer returns the codec of connections whose messages have at most so many bytes.
func NewFramer(most int) session.Codec { return framer{codec.Length{Varint: true, Max: most}} }

// Carriers visits the carriers of the clients.
func (t *Transport) Carriers() iter.Seq[gateway.Carrier] {
	return func(yield func(gateway.Carrier) bool) {
		for s := range t.server.Sessions() {
			if c := sessionconn.Of(s); c != nil && !yield(c) {
				return
			}
		}
	}
}
