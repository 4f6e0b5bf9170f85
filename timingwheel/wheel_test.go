package timingwheel_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/timingwheel"
)

type (
	node  = timingwheel.Node[int]
	wheel = timingwheel.Wheel[int]
)

// advance returns the values that expire at now.
func advance(w *wheel, now int64) []int {
	var values []int
	w.Advance(now, func(n *node) { values = append(values, n.Value) })
	return values
}

func TestNodeSize(t *testing.T) {
	if size := unsafe.Sizeof(timingwheel.Node[*int]{}); size > 40 {
		t.Errorf("a node with a pointer has %d bytes, want at most 40", size)
	}
}

func TestTicks(t *testing.T) {
	const tick = int64(time.Millisecond)
	for _, c := range []struct {
		name     string
		at       int64
		yet, due int64 // the last present at which it does not expire, and the first at which it does
	}{
		{"on a tick", 5 * tick, 5*tick - 1, 5 * tick},
		{"after a tick", 5*tick + 1, 6*tick - 1, 6 * tick},
		{"a round ahead", 69 * tick, 69*tick - 1, 69 * tick},
		{"rounds ahead", 1000*tick - 1, 1000*tick - 1, 1000 * tick},
		{"never", math.MaxInt64, math.MaxInt64 - 1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := timingwheel.NewWheel[int](time.Millisecond, 64)
			var n node
			w.Schedule(&n, c.at)
			if got := advance(w, c.yet); got != nil || !n.Scheduled() || n.At() != c.at {
				t.Errorf("at %d: expired %v, scheduled %v, at %d", c.yet, got, n.Scheduled(), n.At())
			}
			if c.due < 0 {
				return
			}
			if got := advance(w, c.due); len(got) != 1 || n.Scheduled() || w.Len() != 0 {
				t.Errorf("at %d: expired %v, scheduled %v, %d left", c.due, got, n.Scheduled(), w.Len())
			}
		})
	}
}

func TestPastWaitsForTheNextAdvance(t *testing.T) {
	w := timingwheel.NewWheel[int](time.Millisecond, 64)
	now := int64(time.Hour)
	advance(w, now)
	var n node
	for _, at := range []int64{now, now - 1, 0, -1, math.MinInt64} {
		w.Schedule(&n, at)
		if next, ok := w.Next(); !ok || next > now {
			t.Errorf("at %d: Next is %d, %v, want at most %d", at, next, ok, now)
		}
		calls := 0
		w.Advance(now, func(n *node) {
			calls++
			w.Schedule(n, at)
		})
		if calls != 1 || !n.Scheduled() {
			t.Errorf("at %d: expired %d times, want once and to be scheduled again", at, calls)
		}
	}
}

func TestExpireCancelsAndMovesOthers(t *testing.T) {
	const tick = int64(time.Millisecond)
	w := timingwheel.NewWheel[int](time.Millisecond, 64)
	nodes := make([]node, 4)
	for i := range nodes {
		nodes[i].Value = i
		w.Schedule(&nodes[i], tick)
	}
	var first int
	calls := 0
	w.Advance(tick, func(n *node) { // the first node cancels one of the others and moves the remaining two
		if calls++; calls > 1 {
			t.Errorf("%d expired after it had been cancelled or moved", n.Value)
			return
		}
		first = n.Value
		if !w.Cancel(&nodes[(first+1)%4]) {
			t.Error("a due node was not there to be cancelled")
		}
		w.Schedule(&nodes[(first+2)%4], 2*tick)
		w.Schedule(&nodes[(first+3)%4], 0)
	})
	if got := advance(w, tick); len(got) != 1 || got[0] != (first+3)%4 {
		t.Errorf("expired %v, want only %d, which was moved to the past", got, (first+3)%4)
	}
	if got := advance(w, 2*tick); len(got) != 1 || got[0] != (first+2)%4 {
		t.Errorf("expired %v, want only %d, which was moved ahead", got, (first+2)%4)
	}
}

func TestExpirePanics(t *testing.T) {
	w := timingwheel.NewWheel[int](0, 0)
	nodes := make([]node, 3)
	for i := range nodes {
		w.Schedule(&nodes[i], 1)
	}
	func() {
		defer func() { _ = recover() }()
		w.Advance(int64(time.Second), func(*node) { panic("expire") })
	}()
	if w.Len() != 2 {
		t.Fatalf("%d left, want 2", w.Len())
	}
	calls := 0
	for i := 0; w.Len() > 0 && i < 2; i++ {
		if next, ok := w.Next(); !ok || next > int64(time.Second) {
			t.Errorf("Next is %d, %v", next, ok)
		}
		w.Advance(int64(time.Second), func(*node) { calls++ })
	}
	if calls != 2 {
		t.Errorf("%d expired later, want 2", calls)
	}
}

// TestLaws drives a wheel and a plain model with the same random calls. The model is a map from node to instant, and knows the two
// laws: not before its instant, and not later than the tick after it.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tick := rapid.SampledFrom([]time.Duration{time.Microsecond, 1500, time.Millisecond, 7 * time.Second}).Draw(t, "tick")
		l := &laws{
			T:     t,
			tick:  int64(tick),
			round: int64(tick) * 64,
			w:     timingwheel.NewWheel[int](tick, 1),
			nodes: make([]node, 8),
			due:   map[int]int64{},
		}
		for i := range l.nodes {
			l.nodes[i].Value = i
		}
		t.Repeat(map[string]func(*rapid.T){
			"":         l.check,
			"schedule": func(t *rapid.T) { l.T = t; l.schedule() },
			"cancel":   func(t *rapid.T) { l.T = t; l.cancel() },
			"advance":  func(t *rapid.T) { l.T = t; l.advance() },
		})
	})
}

type laws struct {
	*rapid.T
	tick, round int64
	now         int64
	w           *wheel
	nodes       []node
	due         map[int]int64 // by value: the end of the tick in which it is due
	held        map[int]bool  // scheduled into the past by expire
}

// schedule gives any node an instant: in the past, near a tick, or rounds ahead.
func (l *laws) schedule() {
	i := rapid.IntRange(0, len(l.nodes)-1).Draw(l.T, "node")
	at := l.now + rapid.OneOf(
		rapid.Int64Range(-2*l.tick, 3*l.tick),
		rapid.Int64Range(0, 5*l.round),
		rapid.SampledFrom([]int64{0, l.tick, l.round - l.tick, l.round, l.round + l.tick, 2 * l.round, 2*l.round + 1 - l.now%l.tick}),
	).Draw(l.T, "after")
	l.w.Schedule(&l.nodes[i], at)
	if got := l.nodes[i].At(); got != at {
		l.Fatalf("At is %d after Schedule(%d)", got, at)
	}
	l.due[i] = at
	if l.held != nil {
		l.held[i] = at <= l.now/l.tick*l.tick
	}
}

func (l *laws) cancel() {
	i := rapid.IntRange(0, len(l.nodes)-1).Draw(l.T, "node")
	_, was := l.due[i]
	if got := l.w.Cancel(&l.nodes[i]); got != was {
		l.Fatalf("Cancel(%d) = %v, want %v", i, got, was)
	}
	delete(l.due, i)
}

func (l *laws) advance() {
	next, some := l.w.Next()
	steps := []int64{0, 1, l.tick, l.round, 1000*l.round + 1}
	if some {
		steps = append(steps, max(0, next-l.now-1), max(0, next-l.now))
	}
	for _, i := range slices.Sorted(maps.Keys(l.due)) { // just before something is due, and then
		steps = append(steps, max(0, l.due[i]-l.now-1), max(0, l.due[i]-l.now))
	}
	l.now += rapid.OneOf(rapid.Int64Range(0, 2*l.tick), rapid.Int64Range(0, 3*l.round), rapid.SampledFrom(steps)).Draw(l.T, "step")
	l.held = map[int]bool{}
	l.w.Advance(l.now, func(n *node) {
		at, ok := l.due[n.Value]
		switch {
		case !ok:
			l.Fatalf("%d expired and was not scheduled", n.Value)
		case at > l.now:
			l.Fatalf("%d expired %d early", n.Value, at-l.now)
		case l.held[n.Value]:
			l.Fatalf("%d expired in the Advance in which it was scheduled into the past", n.Value)
		case n.Scheduled():
			l.Fatalf("%d is scheduled while it expires", n.Value)
		case !some || next > l.now:
			l.Fatalf("%d expired at %d, before Next, which was %d, %v", n.Value, l.now, next, some)
		}
		delete(l.due, n.Value)
		for range rapid.IntRange(0, 2).Draw(l.T, "calls") {
			if rapid.Bool().Draw(l.T, "cancels") {
				l.cancel()
			} else {
				l.schedule()
			}
		}
	})
	for i, at := range l.due {
		if at <= l.now-l.tick && !l.held[i] {
			l.Fatalf("%d is %d late, the tick is %d", i, l.now-at, l.tick)
		}
	}
	l.held = nil
}

// check compares the observable state of wheel and model.
func (l *laws) check(t *rapid.T) {
	if got := l.w.Len(); got != len(l.due) {
		t.Fatalf("Len is %d, want %d", got, len(l.due))
	}
	for i := range l.nodes {
		if _, want := l.due[i]; l.nodes[i].Scheduled() != want {
			t.Fatalf("%d: Scheduled is %v, want %v", i, !want, want)
		}
	}
	next, ok := l.w.Next()
	if ok != (len(l.due) > 0) {
		t.Fatalf("Next says %v with %d scheduled", ok, len(l.due))
	}
	if ok && next > l.now+l.round+l.tick {
		t.Fatalf("Next is %d, more than a round after %d", next, l.now)
	}
	for i, at := range l.due {
		if next >= max(at+l.tick, l.now+1) {
			t.Fatalf("Next is %d, later than %d, which is due at %d", next, i, at)
		}
	}
}
