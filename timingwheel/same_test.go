package timingwheel_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/timingwheel"
)

// subject is a timer of either package. It records the times at which its function ran.
type subject struct {
	c     <-chan time.Time
	stop  func() bool
	reset func(time.Duration) bool

	mu  sync.Mutex
	ran []time.Time // guarded by mu
}

func (s *subject) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, time.Now())
}

func (s *subject) runs() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ran)
}

// poll returns the value that can be received at once, if any.
func (s *subject) poll() (at time.Time, ok bool) {
	select {
	case at = <-s.c:
		return at, true
	default:
		return at, false
	}
}

// twins are a timer of package time and one of this package, made in the same instant.
type twins struct {
	kind         string
	theirs, ours *subject
}

const (
	sameTick = 10 * time.Millisecond
	sameStep = 30 * time.Millisecond
)

// TestSameAsPackageTime plays one scenario on timers of package time and of this package, in fake time, and requires the same outcome of every
// call. The calls are 30 ms apart, each 5 ms after a tick, and durations are such that nothing is due between the last tick before a call and
// the call: so a tick more or less makes no difference.
func TestSameAsPackageTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) { // the TB without Deadline, which a bubble refuses
			timers := timingwheel.New(&timingwheel.Options{Tick: sameTick, Slots: 64})
			defer timers.Close()
			var all []*twins
			defer func() {
				for _, p := range all {
					p.theirs.stop()
				}
			}()
			at := time.Now().Add(sameTick / 2)
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				<-time.After(time.Until(at))
				synctest.Wait()
				all = sameStepOf(t, timers, all)
				at = at.Add(sameStep)
			}
		})
	})
}

// sameStepOf makes new twins or calls the same method of both timers of a pair, and returns all twins.
func sameStepOf(t *rapid.T, timers *timingwheel.Timers, all []*twins) []*twins {
	kinds := []string{"timer", "func", "ticker"}
	i := rapid.IntRange(-1, len(all)-1).Draw(t, "which")
	if i < 0 {
		return append(all, newTwins(t, timers, rapid.SampledFrom(kinds).Draw(t, "kind")))
	}
	p := all[i]
	switch rapid.SampledFrom([]string{"poll", "stop", "reset"}).Draw(t, "what") {
	case "poll":
		theirs, got := p.theirs.poll()
		ours, gotOurs := p.ours.poll()
		if got != gotOurs || got && notSame(theirs, ours) {
			t.Fatalf("%s: received %v (%v) from ours and %v (%v) from package time", p.kind, ours, gotOurs, theirs, got)
		}
	case "stop":
		if want, got := p.theirs.stop(), p.ours.stop(); got != want {
			t.Fatalf("%s: Stop = %v, package time says %v", p.kind, got, want)
		}
	case "reset":
		d := drawAfter(t, p.kind)
		if want, got := p.theirs.reset(d), p.ours.reset(d); got != want {
			t.Fatalf("%s: Reset(%v) = %v, package time says %v", p.kind, d, got, want)
		}
	}
	synctest.Wait() // for timers that were due at once
	theirs, ours := p.theirs.runs(), p.ours.runs()
	if !slices.EqualFunc(theirs, ours, func(a, b time.Time) bool { return !notSame(a, b) }) {
		t.Fatalf("%s: ours ran at %v, that of package time at %v", p.kind, ours, theirs)
	}
	return all
}

// notSame reports whether the timer of this package is early or a tick late.
func notSame(theirs, ours time.Time) bool {
	late := ours.Sub(theirs)
	return late < 0 || late >= sameTick
}

// drawAfter draws a duration after which nothing is due shortly before the next call.
func drawAfter(t *rapid.T, kind string) time.Duration {
	whole := sameStep * time.Duration(rapid.IntRange(0, 70).Draw(t, "whole"))
	if kind == "ticker" {
		// From now on it ticks at the same distance after each call.
		<-time.After(time.Millisecond)
		return whole + sameStep
	}
	if rapid.IntRange(0, 9).Draw(t, "at once") == 0 {
		return -whole
	}
	return whole + time.Duration(rapid.IntRange(1, 24).Draw(t, "part"))*time.Millisecond
}

// newTwins makes a pair of the same kind.
func newTwins(t *rapid.T, timers *timingwheel.Timers, kind string) *twins {
	theirs, ours := &subject{}, &subject{}
	d := drawAfter(t, kind)
	switch kind {
	case "timer":
		a, b := time.NewTimer(d), timers.NewTimer(d)
		theirs.c, theirs.stop, theirs.reset = a.C, a.Stop, a.Reset
		ours.c, ours.stop, ours.reset = b.C, b.Stop, b.Reset
	case "func":
		a := time.AfterFunc(d, theirs.run)
		b := timers.AfterFunc(d, ours.run)
		theirs.stop, theirs.reset = a.Stop, a.Reset
		ours.stop, ours.reset = b.Stop, b.Reset
		if b.C != nil {
			t.Fatal("a timer with a function has a channel")
		}
	case "ticker":
		a, b := time.NewTicker(d), timers.NewTicker(d)
		theirs.c, ours.c = a.C, b.C
		theirs.stop, ours.stop = func() bool { a.Stop(); return false }, func() bool { b.Stop(); return false }
		theirs.reset = func(d time.Duration) bool { a.Reset(d); return false }
		ours.reset = func(d time.Duration) bool { b.Reset(d); return false }
	default:
		panic(fmt.Sprintf("kind %q", kind))
	}
	return &twins{kind: kind, theirs: theirs, ours: ours}
}
