package timingwheel_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/timingwheel"
)

// epoch is the first time of fake clocks.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// countingClock counts how often its alarms go off.
type countingClock struct {
	*timingwheel.FakeClock
	wakes atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) timingwheel.Alarm {
	return c.FakeClock.AfterFunc(d, func() {
		c.wakes.Add(1)
		f()
	})
}

// received returns the values in the channel.
func received(c <-chan time.Time) (at time.Time, ok bool) {
	select {
	case at = <-c:
		return at, true
	default:
		return at, false
	}
}

// TestNeverEarlyAndAtMostOneTickLate calls random methods of timers on a fake clock, so that only the wheel can be late.
func TestNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tick := rapid.SampledFrom([]time.Duration{time.Microsecond, 333 * time.Microsecond, 10 * time.Millisecond}).Draw(t, "tick")
		clock := timingwheel.NewFakeClock(epoch)
		timers := timingwheel.New(&timingwheel.Options{Tick: tick, Slots: 64, Clock: clock})
		defer timers.Close()
		after := rapid.Map(rapid.OneOf(
			rapid.Int64Range(0, int64(4*tick)),
			rapid.Int64Range(0, int64(200*tick)),
			rapid.SampledFrom([]int64{int64(tick), int64(64 * tick), int64(500 * tick), math.MaxInt64}),
		), func(d int64) time.Duration { return time.Duration(d) })

		all := make([]*timingwheel.Timer, 6)
		due := map[int]time.Time{}
		for i := range all {
			all[i] = timers.NewTimer(time.Hour)
			due[i] = epoch.Add(time.Hour)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if got := timers.Len(); got != len(due) {
					t.Fatalf("Len is %d, want %d", got, len(due))
				}
			},
			"stop": func(t *rapid.T) {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "timer")
				_, want := due[i]
				if got := all[i].Stop(); got != want {
					t.Fatalf("Stop = %v, want %v", got, want)
				}
				delete(due, i)
			},
			"reset": func(t *rapid.T) {
				i, d := rapid.IntRange(0, len(all)-1).Draw(t, "timer"), after.Draw(t, "after")
				_, want := due[i]
				if got := all[i].Reset(d); got != want {
					t.Fatalf("Reset = %v, want %v", got, want)
				}
				due[i] = clock.Now().Add(d)
			},
			"advance": func(t *rapid.T) {
				clock.Advance(min(after.Draw(t, "step"), 500*tick))
				for i, timer := range all {
					at, scheduled := due[i]
					sent, ok := received(timer.C)
					switch {
					case ok && !scheduled:
						t.Fatalf("%d fired and was not scheduled", i)
					case ok && (sent.Before(at) || sent.Sub(at) >= tick):
						t.Fatalf("%d fired %v late, the tick is %v", i, sent.Sub(at), tick)
					case !ok && scheduled && clock.Now().Sub(at) >= tick:
						t.Fatalf("%d has not fired %v after it was due", i, clock.Now().Sub(at))
					case ok:
						delete(due, i)
					}
				}
			},
		})
	})
}

// TestRaces lets many goroutines stop and reset the same timers while they fire, in fake time, where much happens in one instant. Each start of
// a timer must have one outcome: a call reported that it stopped the timer, or the timer fired. So the two sums agree.
func TestRaces(t *testing.T) {
	for _, kind := range []string{"func", "channel"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timers := timingwheel.New(&timingwheel.Options{Tick: time.Millisecond, Slots: 64})
				var started, stopped, ran atomic.Int64
				all := make([]*timingwheel.Timer, 4)
				done := make(chan struct{})
				for i := range all {
					started.Add(1)
					if kind == "func" {
						all[i] = timers.AfterFunc(time.Millisecond, func() { ran.Add(1) })
						continue
					}
					timer := timers.NewTimer(time.Millisecond)
					all[i] = timer
					go func() {
						for {
							select {
							case <-timer.C:
								ran.Add(1)
							case <-done:
								return
							}
						}
					}()
				}
				var wg sync.WaitGroup
				for seed := range uint64(8) {
					wg.Go(func() { disturb(rand.New(rand.NewPCG(seed, 1)), all, &started, &stopped) })
				}
				wg.Wait()
				for _, timer := range all {
					if timer.Stop() {
						stopped.Add(1)
					}
				}
				timers.Close()
				synctest.Wait()
				close(done)
				if started.Load() != stopped.Load()+ran.Load() || ran.Load() == 0 || stopped.Load() == 0 {
					t.Errorf("started %d, stopped %d, ran %d", started.Load(), stopped.Load(), ran.Load())
				}
			})
		})
	}
}

// soon is longer than zero. A timer of package time that is due when it is started is run by the goroutine that starts it. If that goroutine is
// in a bubble of synctest while others run, they share the race detector's state of one goroutine, which crashes it now and then (Go 1.26).
func soon(r *rand.Rand) time.Duration { return time.Duration(1+r.IntN(2)) * time.Millisecond }

// disturb stops and resets timers, and waits a little now and then.
func disturb(r *rand.Rand, all []*timingwheel.Timer, started, stopped *atomic.Int64) {
	for range 500 {
		timer, was := all[r.IntN(len(all))], false
		switch r.IntN(4) {
		case 0:
			was = timer.Stop()
		case 1:
			<-time.After(soon(r))
		default:
			started.Add(1)
			was = timer.Reset(soon(r))
		}
		if was {
			stopped.Add(1)
		}
	}
}

// TestNothingStale has each goroutine reset its own timer as it fires. A received value must be of the last reset.
func TestNothingStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := timingwheel.New(&timingwheel.Options{Tick: time.Millisecond, Slots: 64})
		defer timers.Close()
		var wg sync.WaitGroup
		for seed := range uint64(8) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 2))
				timer := timers.NewTimer(0)
				for range 500 {
					d := time.Duration(r.IntN(3)) * time.Millisecond
					due := time.Now().Add(d)
					timer.Reset(d)
					switch r.IntN(3) {
					case 0:
						if at := <-timer.C; at.Before(due) {
							t.Errorf("received what was sent %v before it was due", due.Sub(at))
						}
					case 1:
						timer.Stop()
						if _, ok := received(timer.C); ok {
							t.Error("received something after Stop had returned")
						}
					default:
						<-time.After(d)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := timingwheel.New(&timingwheel.Options{Tick: time.Hour})
		defer timers.Close()
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			start := time.Now()
			if at := <-timers.After(d); at.Sub(start) != 0 {
				t.Errorf("After(%d) took %v", d, at.Sub(start))
			}
			<-time.After(time.Minute)
		}
	})
}

// TestTicker checks that being a fraction of a tick late does not add up, and that a slow receiver gets one of the ticks it missed.
func TestTicker(t *testing.T) {
	clock := timingwheel.NewFakeClock(epoch)
	timers := timingwheel.New(&timingwheel.Options{Tick: 10 * time.Millisecond, Clock: clock})
	defer timers.Close()
	const period = 33 * time.Millisecond
	ticker := timers.NewTicker(period)
	for i := range time.Duration(100) {
		due := epoch.Add((i + 1) * period)
		clock.Advance(due.Sub(clock.Now()) - 1)
		if at, ok := received(ticker.C); ok {
			t.Fatalf("tick %d came at %v, early", i, at.Sub(epoch))
		}
		clock.Advance(10 * time.Millisecond)
		if at, ok := received(ticker.C); !ok || at.Sub(due) >= 10*time.Millisecond {
			t.Fatalf("tick %d, due at %v, came at %v (%v)", i, due.Sub(epoch), at.Sub(epoch), ok)
		}
	}
	clock.Advance(10 * period)
	if _, ok := received(ticker.C); !ok {
		t.Error("no tick after ten periods")
	}
	if _, ok := received(ticker.C); ok {
		t.Error("two ticks waited for a slow receiver")
	}
	clock.Advance(period)
	ticker.Reset(time.Second)
	clock.Advance(time.Second - 1)
	if at, ok := received(ticker.C); ok {
		t.Errorf("a tick from %v was received after Reset", at.Sub(epoch))
	}
	clock.Advance(10 * time.Millisecond)
	ticker.Stop()
	if _, ok := received(ticker.C); ok || timers.Len() != 0 {
		t.Error("a tick was received after Stop")
	}
}

func TestTick(t *testing.T) {
	clock := timingwheel.NewFakeClock(epoch)
	timers := timingwheel.New(&timingwheel.Options{Clock: clock})
	defer timers.Close()
	if timers.Tick(0) != nil || timers.Tick(-1) != nil {
		t.Error("Tick of nothing has a channel")
	}
	c := timers.Tick(time.Second)
	for range 3 {
		clock.Advance(time.Second + 10*time.Millisecond)
		if _, ok := received(c); !ok {
			t.Error("no tick")
		}
	}
}

func TestWakesOnlyWhenSomethingIsDue(t *testing.T) {
	clock := &countingClock{FakeClock: timingwheel.NewFakeClock(epoch)}
	timers := timingwheel.New(&timingwheel.Options{Clock: clock})
	defer timers.Close()
	wakes := func(d time.Duration) int64 {
		before := clock.wakes.Load()
		clock.Advance(d)
		return clock.wakes.Load() - before
	}
	if n := wakes(time.Hour); n != 0 {
		t.Errorf("%d wake-ups without a timer", n)
	}
	all := make([]*timingwheel.Timer, 1000)
	for i := range all {
		all[i] = timers.NewTimer(time.Second + time.Duration(i+1)*time.Microsecond)
	}
	if n := wakes(2 * time.Second); n != 1 {
		t.Errorf("%d wake-ups for a thousand timers in one tick", n)
	}
	for _, timer := range all {
		if _, ok := received(timer.C); !ok {
			t.Fatal("a timer has not fired")
		}
		timer.Reset(time.Second)
		timer.Stop()
	}
	if n := wakes(time.Hour); n > 1 {
		t.Errorf("%d wake-ups for timers that were stopped", n)
	}
	timers.NewTimer(time.Minute)
	if n := wakes(time.Hour); n > 3 { // two rounds are on the way
		t.Errorf("%d wake-ups for one timer", n)
	}
}

func TestClose(t *testing.T) {
	clock := timingwheel.NewFakeClock(epoch)
	timers := timingwheel.New(&timingwheel.Options{Clock: clock})
	var ran atomic.Bool
	f := timers.AfterFunc(time.Second, func() { ran.Store(true) })
	timer, ticker, sent := timers.NewTimer(math.MaxInt64), timers.NewTicker(time.Second), timers.NewTimer(0)
	clock.Advance(0)
	timers.Close()
	timers.Close()
	if timers.Len() != 0 || timer.Stop() || f.Stop() || f.Reset(time.Second) {
		t.Error("something is still scheduled after Close")
	}
	if !sent.Stop() {
		t.Error("what was sent before Close and not received could not be taken back")
	}
	late := timers.NewTimer(0)
	ticker.Reset(time.Second)
	if timers.Len() != 0 || late.Reset(time.Second) || late.Stop() {
		t.Error("something was scheduled after Close")
	}
	clock.Advance(time.Hour)
	for _, c := range []<-chan time.Time{timer.C, ticker.C, sent.C, late.C, timers.After(0)} {
		if _, ok := received(c); ok {
			t.Error("something was sent after Close")
		}
	}
	if ran.Load() {
		t.Error("a function ran after Close")
	}
}

func TestCloseFromAFunction(t *testing.T) {
	timers := timingwheel.New(nil)
	done := make(chan struct{})
	timers.AfterFunc(0, func() {
		timers.Close()
		close(done)
	})
	testwait.Receive(t, done)
}

func TestMistakesPanic(t *testing.T) {
	timers := timingwheel.New(nil)
	defer timers.Close()
	ticker := timers.NewTicker(time.Hour)
	for name, f := range map[string]func(){
		"NewTicker":        func() { timers.NewTicker(0) },
		"Ticker.Reset":     func() { ticker.Reset(-1) },
		"AfterFunc":        func() { timers.AfterFunc(0, nil) },
		"Timer.Stop":       func() { new(timingwheel.Timer).Stop() },
		"Timer.Reset":      func() { new(timingwheel.Timer).Reset(1) },
		"FakeClock, back":  func() { timingwheel.NewFakeClock(epoch).Advance(-1) },
		"Ticker.Stop, new": func() { new(timingwheel.Ticker).Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			f()
		})
	}
}
