package alarm_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/alarm"
	"github.com/sluice-push/sluice/timingwheel"
)

const late = 2 * time.Millisecond

// woken is who was woken, in order.
type woken struct {
	mu  sync.Mutex
	all []int
}

func (w *woken) add(v int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, v)
}

func (w *woken) take() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.all
	w.all = nil
	return out
}

// TestAlarms compares a clock, over which many alarms are set, moved and cancelled, with a list of when each has to go off.
func TestAlarms(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		source, w := timingwheel.NewFakeClock(time.Now()), &woken{}
		c := alarm.New(source, w.add)
		var alarms []*alarm.Alarm[int]
		for i := range 20 {
			alarms = append(alarms, alarm.Of(i))
		}
		due := map[int]int64{}
		for range 300 {
			i, at := rng.IntN(len(alarms)), c.Now()+rng.Int64N(int64(5*time.Second))
			switch rng.IntN(4) {
			case 0:
				c.Cancel(alarms[i])
				delete(due, i)
			case 1:
				c.Set(alarms[i], at)
				if was, ok := due[i]; !ok || at < was {
					due[i] = at
				}
			default:
				source.Advance(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
				for _, i := range w.take() {
					if at, ok := due[i]; !ok || at > c.Now() {
						t.Fatalf("seed %d: %d was woken at %d, it was due at %d (%t)", seed, i, c.Now(), at, ok)
					}
					delete(due, i)
				}
				for i, at := range due {
					if at+int64(late) <= c.Now() {
						t.Fatalf("seed %d: %d was not woken at %d, it is %d", seed, i, at, c.Now())
					}
				}
			}
		}
		source.Advance(10 * time.Second)
		if left := w.take(); len(left) != len(due) {
			t.Fatalf("seed %d: %d were woken in the end, not %d", seed, len(left), len(due))
		}
		c.Close()
	}
}

// TestPast: what is due already is woken at once, that is when the clock's goroutine comes to it.
func TestPast(t *testing.T) {
	w := make(chan string, 2)
	c := alarm.New(nil, func(v string) { w <- v })
	defer c.Close()
	c.Set(alarm.Of("long ago"), -5)
	c.Set(alarm.Of("now"), c.Now())
	got := []string{testwait.Receive(t, w), testwait.Receive(t, w)}
	if slices.Sort(got); !slices.Equal(got, []string{"long ago", "now"}) {
		t.Errorf("%v were woken", got)
	}
}

// TestClose: nobody is woken by a clock that is closed.
func TestClose(t *testing.T) {
	source, w := timingwheel.NewFakeClock(time.Now()), &woken{}
	c := alarm.New(source, w.add)
	one, two := alarm.Of(1), alarm.Of(2)
	c.Set(one, int64(time.Second))
	c.Close()
	c.Set(two, int64(time.Second))
	c.Cancel(one)
	source.Advance(time.Minute)
	if got := w.take(); len(got) > 0 {
		t.Errorf("%v were woken by a closed clock", got)
	}
}

// TestConcurrent: alarms are set, cancelled and go off at the same time; the race detector looks on.
func TestConcurrent(t *testing.T) {
	source, w := timingwheel.NewFakeClock(time.Now()), &woken{}
	c := alarm.New(source, w.add)
	defer c.Close()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			a := alarm.Of(i)
			for n := range 200 {
				c.Set(a, c.Now()+int64(n%7)*int64(time.Millisecond))
				if n%5 == 0 {
					c.Cancel(a)
				}
				source.Advance(time.Millisecond)
			}
		})
	}
	testwait.Return(t, all.Wait)
}
