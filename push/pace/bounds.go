package pace

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Bounds are the limits that a client, or a back end for it, sets on its deliveries. A nil field leaves the limit as it is.
type Bounds struct {
	// Interval is the shortest time between two deliveries to a subscription. Less than 0: the shortest that the namespace allows.
	Interval *time.Duration
	// Bandwidth is the largest number of bytes of publications a second for a connection. 0: as many as the node allows.
	Bandwidth *int64
}

// BoundsOf returns the bounds for an interval in milliseconds, where 0 means the shortest that the namespace allows, and a bandwidth in bytes a
// second. A nil argument leaves the limit as it is. The error names the invalid argument and the valid range.
func BoundsOf(interval, bandwidth *int64) (b Bounds, err error) {
	const most = int64(push.MaxInterval / time.Millisecond)
	switch {
	case interval != nil && (*interval < 0 || *interval > most):
		return b, fmt.Errorf("interval is %d milliseconds: use 0 to %d", *interval, most)
	case bandwidth != nil && *bandwidth < 0:
		return b, fmt.Errorf("bandwidth is %d: use 0 or more bytes per second", *bandwidth)
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
