package eventloop_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// guarded is a goroutine with its watchdog.
type guarded struct {
	watchdog *eventloop.Watchdog
	resting  atomic.Bool
	asked    chan struct{} // after each question whether the goroutine is idle
	fired    chan struct{}
}

func newGuarded(t *testing.T, patience time.Duration) *guarded {
	watchdog, err := eventloop.NewWatchdog(patience)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{watchdog: watchdog, asked: make(chan struct{}, 1), fired: make(chan struct{})}
	var ended sync.WaitGroup
	ended.Go(func() {
		watchdog.Run(func() bool {
			defer func() {
				select {
				case g.asked <- struct{}{}:
				default:
				}
			}()
			return g.resting.Load()
		}, func() { g.fired <- struct{}{} })
	})
	t.Cleanup(func() {
		if err := watchdog.Close(); err != nil {
			t.Error(err)
		}
		testwait.Return(t, ended.Wait)
	})
	return g
}

// A watchdog fires once after each period without a Reset, and never too early. Fired reports that until Clear.
func TestWatchdogFires(t *testing.T) {
	const patience = 2 * time.Millisecond
	g := newGuarded(t, patience)
	began := time.Now()
	for i := range 3 {
		said := time.Now()
		g.watchdog.Reset(int64(time.Since(began)))
		testwait.Receive(t, g.fired)
		if waited := time.Since(said); waited < patience*3/2 {
			t.Errorf("round %d: it fired after %v", i, waited)
		}
		if !g.watchdog.Fired() || !g.watchdog.Clear() || g.watchdog.Fired() || g.watchdog.Clear() {
			t.Errorf("round %d: what it says does not agree with what it did", i)
		}
	}
}

// While the goroutine checks in, the watchdog does not fire. The clock is the test's own, because the goroutine may not run for long.
func TestWatchdogIsPutOff(t *testing.T) {
	const patience = time.Hour
	g := newGuarded(t, patience)
	for now := int64(0); now < int64(10*patience); now += int64(patience / 3) {
		g.watchdog.Reset(now)
	}
	if g.watchdog.Fired() {
		t.Error("it fired")
	}
}

// A watchdog does not fire for an idle goroutine, and fires when the goroutine works again.
func TestWatchdogLetsRest(t *testing.T) {
	g := newGuarded(t, time.Millisecond)
	g.resting.Store(true)
	g.watchdog.Reset(0)
	testwait.Receive(t, g.asked)
	if g.watchdog.Fired() {
		t.Error("it fired although the goroutine was idle")
	}
	g.resting.Store(false)
	g.watchdog.Reset(1) // long before its patience ends: the timer has run out, so it is set all the same
	testwait.Receive(t, g.fired)
}
