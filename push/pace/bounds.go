package pace

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Bounds are what clients, or back ends for them, say about how they are served; nil means that it stays as it is.
type Bounds struct {
	// Interval is the shortest time between two services of a subscription; less than 0: as often as its namespace allows.
	Interval *time.Duration
	// Bandwidth is how many bytes of publications a second a connection is sent at most; 0: as many as the node allows.
	Bandwidth *int64
}

// BoundsOf returns bounds as clients and back ends say them: an interval in milliseconds, 0 for as often as the namespace allows, and a
// bandwidth in bytes a second; nil where nothing is said. The error says which of the two makes no sense, and what would.
func BoundsOf(interval, bandwidth *int64) (b Bounds, err error) {
	const most = int64(push.MaxInterval / time.Millisecond)
	switch {
	case interval != nil && (*interval < 0 || *interval > most):
		return b, fmt.Errorf("interval is %d milliseconds, it has to be from 0 to %d", *interval, most)
	case bandwidth != nil && *bandwidth < 0:
		return b, fmt.Errorf("bandwidth is %d, it has to be 0 or more bytes a second", *bandwidth)
	}
	if interval != nil {
		d := time.Duration(*interval) * time.Millisecond
		if d == 0 {
			d = -1
		}
		b.Interval = &d
	}
	b.Bandwidth = bandwidth
	return b, nil
}
