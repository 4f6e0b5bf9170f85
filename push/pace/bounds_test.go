package pace_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/pace"
)

func TestBoundsOf(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name                string
		interval, bandwidth *int64
		want                time.Duration
		complaint           string
	}{
		{name: "nothing"},
		{name: "both", interval: number(200), bandwidth: number(5), want: 200 * time.Millisecond},
		{name: "as often as may be", interval: number(0), want: -1},
		{name: "the longest", interval: number(86_400_000), want: 24 * time.Hour},
		{name: "too long", interval: number(86_400_001), complaint: "interval is 86400001 milliseconds: use 0 to 86400000"},
		{name: "less than none", interval: number(-1), complaint: "interval is -1 milliseconds: use 0 to 86400000"},
		{name: "no bandwidth of its own", bandwidth: number(0)},
		{name: "less than nothing", bandwidth: number(-1), complaint: "bandwidth is -1: use 0 or more bytes per second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := pace.BoundsOf(tt.interval, tt.bandwidth)
			if tt.complaint != "" {
				if err == nil || err.Error() != tt.complaint {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil || b.Bandwidth != tt.bandwidth || (b.Interval == nil) != (tt.interval == nil) || b.Interval != nil && *b.Interval != tt.want {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}
