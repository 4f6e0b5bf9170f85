package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-push/sluice/push/pace"
)

const (
	second = 1_000_000_000
	milli  = 1_000_000
)

// sub is a subscription of the model: its amount of data to send, and its history.
type sub struct {
	item     *pace.Item[*sub]
	priority int
	news     bool
	newsAt   int64 // when it got something to send, 0 if there is nothing
	ends     []int64
	left     int // the turns that the rest takes
}

// sent is the result of one turn.
type sent struct{ at, bytes int64 }

// world serves subscriptions of one client at random times.
type world struct {
	t    *testing.T
	r    *rand.Rand
	p    pace.Pacer[*sub]
	now  int64
	subs []*sub
	sent []sent
	over int64 // the most that a turn took beyond its room
}

func (w *world) publish() {
	s := w.subs[w.r.IntN(len(w.subs))]
	if !s.news {
		s.news, s.newsAt, s.left = true, w.now, 1+w.r.IntN(3)
	}
	w.p.Add(s.item, w.now)
}

// serve performs all turns that are possible now, and returns their number.
func (w *world) serve(most int) (turns int) {
	for turns < most {
		it := w.p.Next(w.now)
		if it == nil {
			return turns
		}
		turns++
		s := it.Value
		if !s.news {
			w.t.Fatalf("a turn at %d of who has nothing", w.now)
		}
		if n := len(s.ends); n > 0 && w.now-s.ends[n-1] < it.Interval() {
			w.t.Fatalf("served %d ns after it had all, the interval is %d", w.now-s.ends[n-1], it.Interval())
		}
		room := int64(w.p.Available(w.now))
		bytes := min(room, int64(w.r.IntN(2000))) + int64(w.r.IntN(500))
		w.over = max(w.over, bytes-room)
		w.p.Consume(w.now, bytes)
		w.sent = append(w.sent, sent{w.now, bytes})
		if s.left--; s.left > 0 {
			w.p.Served(it, w.now, false)
			continue
		}
		s.news, s.newsAt = false, 0
		s.ends = append(s.ends, w.now)
		w.p.Served(it, w.now, true)
	}
	return turns
}

// For random operations: no subscription is served twice within its interval, no span of time exceeds its bandwidth, no subscription with
// something to send is forgotten, and NextTime returns the time of the next turn.
func TestPacerModel(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: 1 + int64(seed%3)*second}
	bandwidth := int64(0)
	if seed%4 != 0 {
		bandwidth = 1 + w.r.Int64N(100_000)
	}
	w.p.SetBandwidth(w.now, bandwidth)
	for range 1 + w.r.IntN(40) {
		s := &sub{priority: w.r.IntN(pace.Priorities)}
		interval := int64(0)
		if w.r.IntN(2) == 0 {
			interval = w.r.Int64N(2 * second)
		}
		s.item = pace.NewItem(s, interval, s.priority)
		w.subs = append(w.subs, s)
	}
	for range 2000 {
		switch w.r.IntN(5) {
		case 0:
			w.now += w.r.Int64N(50 * milli)
		case 1:
			if at := w.p.NextTime(); at != pace.Never {
				w.now = max(w.now, at)
				if w.serve(1) == 0 {
					t.Fatalf("nobody had a turn when there was to be one, at %d", w.now)
				}
			}
		case 2, 3:
			w.publish()
		case 4:
			w.serve(1 + w.r.IntN(5))
			if at := w.p.NextTime(); at > w.now && w.p.Next(w.now) != nil {
				t.Fatalf("somebody has a turn at %d, not only at %d", w.now, at)
			}
		}
	}
	for w.p.NextTime() != pace.Never {
		w.now = max(w.now, w.p.NextTime())
		w.serve(1)
	}
	for i, s := range w.subs {
		if s.news {
			t.Errorf("subscription %d was forgotten", i)
		}
	}
	if bandwidth > 0 {
		w.checkBandwidth(bandwidth)
	}
}

// checkBandwidth checks all spans from one turn to another.
func (w *world) checkBandwidth(bandwidth int64) {
	for i := 0; i < len(w.sent); i += 7 {
		bytes := int64(0)
		for _, s := range w.sent[i:] {
			// What is sent at the end of the span was had for what came before it, and may exceed its own room.
			span := s.at - w.sent[i].at + second/10
			bytes += s.bytes
			if most := float64(span)*float64(bandwidth)/second + float64(w.over) + 2; float64(bytes) > most {
				w.t.Fatalf("%d bytes in %d ns, at most %.0f at %d/s", bytes, span, most, bandwidth)
			}
		}
	}
}

// newSub returns a subscription that always has something to send.
func newSub(p *pace.Pacer[*sub], interval int64, priority int) *sub {
	s := &sub{priority: priority}
	s.item = pace.NewItem(s, interval, priority)
	p.Add(s.item, 0)
	return s
}

// Within a priority the subscription that has waited longest goes first. A higher priority goes before a lower one until the lower one has
// waited long.
func TestPacerOrder(t *testing.T) {
	var p pace.Pacer[*sub]
	low, a, b := newSub(&p, 0, 1), newSub(&p, 0, 5), newSub(&p, 0, 5)
	for i, want := range []*sub{a, b, a, b, a} {
		it := p.Next(int64(i))
		if it == nil || it.Value != want {
			t.Fatalf("turn %d is not of who has waited longest in the highest priority", i)
		}
		p.Served(it, int64(i), false)
	}
	for i, want := range []*sub{low, b, a, low} { // from when it has waited for a second it has every other turn
		now := pace.StarvationThreshold * int64(i+1)
		it := p.Next(now)
		if it == nil || it.Value != want {
			t.Fatalf("turn %d under patience is of priority %d", i, it.Value.priority)
		}
		p.Served(it, now, false)
	}
}

// However busy the higher priorities are, a lower one has a turn within a bounded number of turns.
func TestPacerStarvation(t *testing.T) {
	var p pace.Pacer[*sub]
	var low []*sub
	for range 5 {
		low = append(low, newSub(&p, 0, 0))
	}
	for range 50 {
		newSub(&p, 0, 9)
	}
	turns := map[*sub]int{}
	now := int64(0)
	for range 10_000 {
		now += milli
		it := p.Next(now)
		turns[it.Value]++
		p.Served(it, now, false)
	}
	for _, s := range low { // each at least once in StarvationThreshold, give or take the others' turns
		if turns[s] < 8 {
			t.Errorf("a low priority had %d turns in ten seconds", turns[s])
		}
	}
	total := 0
	for _, s := range low {
		total += turns[s]
	}
	if total > 5_100 {
		t.Errorf("the low priorities had %d turns of 10000, more than half", total)
	}
}

// A changed interval counts from the time at which the item was last served.
func TestPacerSetInterval(t *testing.T) {
	var p pace.Pacer[*sub]
	s := newSub(&p, second, 0)
	p.Served(p.Next(0), 0, true)
	p.Add(s.item, 1)
	if at := p.NextTime(); at != second {
		t.Fatalf("opens at %d", at)
	}
	p.SetInterval(s.item, 1, 3*second)
	if at := p.NextTime(); at != 3*second {
		t.Fatalf("opens at %d after it was made longer", at)
	}
	p.SetInterval(s.item, second, second/2)
	if it := p.Next(second); it != s.item {
		t.Fatal("not served when its interval was made shorter than the time since it was")
	}
	p.Served(s.item, second, true)
	if at := p.NextTime(); at != pace.Never {
		t.Fatalf("When is %d though nobody has anything", at)
	}
}

// A change of the bandwidth keeps the debt, and bytes that were not sent are given back.
func TestPacerBandwidth(t *testing.T) {
	var p pace.Pacer[*sub]
	s := newSub(&p, 0, 0)
	p.SetBandwidth(0, 1000)
	if room := p.Available(0); room != 1 {
		t.Errorf("room for %d bytes at the beginning", room)
	}
	p.Served(p.Next(0), 0, false)
	p.Consume(0, 500)
	if at := p.NextTime(); at != second/2 {
		t.Errorf("500 bytes at 1000 a second are through at %d", at)
	}
	p.SetBandwidth(0, 250)
	if at := p.NextTime(); at != 2*second {
		t.Errorf("500 bytes at 250 a second are through at %d", at)
	}
	p.Consume(0, -250)
	if at := p.NextTime(); at != second {
		t.Errorf("250 bytes at 250 a second are through at %d", at)
	}
	p.SetBandwidth(0, 0)
	if it := p.Next(0); it != s.item {
		t.Error("there is no bound any more, and no turn")
	}
}

// An item can be removed in any state, also during its turn, and is not served afterwards.
func TestPacerRemove(t *testing.T) {
	var p pace.Pacer[*sub]
	a, b, c := newSub(&p, 0, 3), newSub(&p, second, 3), newSub(&p, 0, 3)
	it := p.Next(0)
	if it != a.item {
		t.Fatal("the first is not first")
	}
	p.Remove(a.item)
	p.Remove(c.item)
	p.Served(p.Next(0), 0, true) // b
	p.Add(b.item, 1)
	p.Remove(b.item)
	if at := p.NextTime(); at != pace.Never || p.Next(10*second) != nil {
		t.Errorf("When is %d, all are removed", at)
	}
}

// A turn with nothing to send does not begin the interval.
func TestPacerPassed(t *testing.T) {
	var p pace.Pacer[*sub]
	s := newSub(&p, second, 0)
	p.Skipped(p.Next(0))
	if at := p.NextTime(); at != pace.Never {
		t.Errorf("When is %d, nobody has anything", at)
	}
	p.Add(s.item, 1)
	if p.Next(1) != s.item {
		t.Error("no turn though it was not served yet")
	}
}

// An item that Allows admits and is served without Next counts as served in a turn.
func TestPacerFree(t *testing.T) {
	var p pace.Pacer[*sub]
	s := &sub{}
	s.item = pace.NewItem(s, second, 0)
	if !p.Allows(s.item, 0) {
		t.Fatal("nobody waits, and it is not free")
	}
	p.Served(s.item, 0, true)
	if p.Allows(s.item, 1) {
		t.Error("free within its interval")
	}
	if !p.Allows(s.item, second) {
		t.Error("not free after its interval")
	}
	p.SetBandwidth(second, 1)
	p.Consume(second, 2)
	if p.Allows(s.item, second) {
		t.Error("free without bandwidth")
	}
	other := &sub{}
	other.item = pace.NewItem(other, 0, 0)
	p.Add(other.item, second)
	if p.Allows(s.item, 100*second) {
		t.Error("free while another waits")
	}
}

func BenchmarkPacer(b *testing.B) {
	for _, n := range []int{1, 20, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var p pace.Pacer[int]
			items := make([]*pace.Item[int], n)
			for i := range items {
				items[i] = pace.NewItem(i, milli, i%pace.Priorities)
			}
			now := int64(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now += milli
				p.Add(items[i%n], now)
				it := p.Next(now)
				p.Consume(now, 300)
				p.Served(it, now, true)
			}
		})
	}
}
