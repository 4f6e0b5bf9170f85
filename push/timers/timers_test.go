package timers_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/timers"
	"github.com/sluice-push/sluice/timingwheel"
)

const late = 2 * time.Millisecond

// fired records the values for which fire was called, in order.
type fired struct {
	mu  sync.Mutex
	all []int
}

func (w *fired) add(v int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, v)
}

func (w *fired) take() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.all
	w.all = nil
	return out
}

// TestTimers compares a Scheduler, whose timers are set, moved and cancelled, with a list of the times at which each has to expire.
func TestTimers(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		source, w := timingwheel.NewFakeClock(time.Now()), &fired{}
		c := timers.New(source, w.add)
		var all []*timers.Timer[int]
		for i := range 20 {
			all = append(all, timers.NewTimer(i))
		}
		due := map[int]int64{}
		for range 300 {
			i, at := rng.IntN(len(all)), c.Now()+rng.Int64N(int64(5*time.Second))
			switch rng.IntN(4) {
			case 0:
				c.Cancel(all[i])
				delete(due, i)
			case 1:
				c.Set(all[i], at)
				if was, ok := due[i]; !ok || at < was {
					due[i] = at
				}
			default:
				source.Advance(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
				for _, i := range w.take() {
					if at, ok := due[i]; !ok || at > c.Now() {
						t.Fatalf("seed %d: %d was fired at %d, it was due at %d (%t)", seed, i, c.Now(), at, ok)
					}
					delete(due, i)
				}
				for i, at := range due {
					if at+int64(late) <= c.Now() {
						t.Fatalf("seed %d: %d was not fired at %d, it is %d", seed, i, at, c.Now())
					}
				}
			}
		}
		source.Advance(10 * time.Second)
		if left := w.take(); len(left) != len(due) {
			t.Fatalf("seed %d: %d were fired in the end, not %d", seed, len(left), len(due))
		}
		c.Close()
	}
}

// TestPast: a timer set to the past fires at once, as soon as the Scheduler's goroutine runs.
func TestPast(t *testing.T) {
	w := make(chan string, 2)
	c := timers.New(nil, func(v string) { w <- v })
	defer c.Close()
	c.Set(timers.NewTimer("long ago"), -5)
	c.Set(timers.NewTimer("now"), c.Now())
	got := []string{testwait.Receive(t, w), testwait.Receive(t, w)}
	if slices.Sort(got); !slices.Equal(got, []string{"long ago", "now"}) {
		t.Errorf("%v were fired", got)
	}
}

// TestClose: a closed Scheduler does not call fire.
func TestClose(t *testing.T) {
	source, w := timingwheel.NewFakeClock(time.Now()), &fired{}
	c := timers.New(source, w.add)
	one, two := timers.NewTimer(1), timers.NewTimer(2)
	c.Set(one, int64(time.Second))
	c.Close()
	c.Set(two, int64(time.Second))
	c.Cancel(one)
	source.Advance(time.Minute)
	if got := w.take(); len(got) > 0 {
		t.Errorf("%v were fired by a closed Scheduler", got)
	}
}

// TestConcurrent: timers are set, cancelled and expire concurrently, for the race detector.
func TestConcurrent(t *testing.T) {
	source, w := timingwheel.NewFakeClock(time.Now()), &fired{}
	c := timers.New(source, w.add)
	defer c.Close()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			a := timers.NewTimer(i)
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
