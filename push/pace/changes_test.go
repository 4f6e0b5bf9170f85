package pace_test

import (
	"maps"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/pace"
)

// TestChanges: a client takes the newest setting of each kind, once.
func TestChanges(t *testing.T) {
	var c pace.Changes[string, int]
	if got := c.Take("a"); got.Bandwidth != nil || got.Intervals != nil || c.Len() != 0 {
		t.Errorf("of no changes %+v was taken", got)
	}
	c.SetBandwidth("a", 1)
	c.SetBandwidth("a", 2)
	c.SetInterval("a", 7, time.Second)
	c.SetInterval("a", 7, time.Minute)
	c.SetInterval("a", 8, time.Hour)
	c.SetBandwidth("b", 3)
	if c.Len() != 2 {
		t.Errorf("%d clients have a change, want 2", c.Len())
	}
	got, want := c.Take("a"), map[int]time.Duration{7: time.Minute, 8: time.Hour}
	if got.Bandwidth == nil || *got.Bandwidth != 2 || !maps.Equal(got.Intervals, want) {
		t.Errorf("%+v was taken, want bandwidth 2 and intervals %v", got, want)
	}
	if got := c.Take("a"); got.Bandwidth != nil || got.Intervals != nil {
		t.Errorf("%+v was taken a second time", got)
	}
	if got := c.Take("b"); got.Bandwidth == nil || *got.Bandwidth != 3 || got.Intervals != nil || c.Len() != 0 {
		t.Errorf("%+v was taken, want bandwidth 3", got)
	}
}
