package eventloop_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
)

// Offers are made more often than the runtime preempts, more and more seldom where the processor does not come back soon, and again often
// when it does.
func TestOffers(t *testing.T) {
	var o eventloop.YieldTimer
	now := int64(time.Hour)
	next := func(took time.Duration) (after time.Duration) {
		t.Helper()
		from := now
		for step := int64(time.Millisecond); !o.Due(now); now += step {
			if now-from > int64(time.Hour) {
				t.Fatal("there is never one")
			}
		}
		began := now
		now += int64(took)
		o.Yielded(began, now)
		return time.Duration(began - from)
	}
	for i, c := range []struct{ took, want time.Duration }{
		{0, 0},
		{0, 8 * time.Millisecond},
		{10 * time.Millisecond, 8 * time.Millisecond},
		{10 * time.Millisecond, 64 * time.Millisecond},
		{10 * time.Millisecond, 512 * time.Millisecond},
		{10 * time.Millisecond, 4096 * time.Millisecond},
		{10 * time.Millisecond, 30 * time.Second},
		{time.Millisecond, 30 * time.Second},
		{0, 8 * time.Millisecond},
	} {
		if got := next(c.took); got != c.want {
			t.Errorf("offer %d came after %v, want %v", i, got, c.want)
		}
	}
	for at, want := range map[time.Duration]bool{5999 * time.Microsecond: false, 6 * time.Millisecond: true} {
		if got := o.Soon(now + int64(at)); got != want {
			t.Errorf("due soon %v after an offer: %t", at, got)
		}
	}
	now += int64(5 * time.Millisecond)
	o.Parked(now)
	if got := next(0); got != 8*time.Millisecond {
		t.Errorf("after a rest an offer came after %v", got)
	}
}
