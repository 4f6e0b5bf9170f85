package load

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-push/sluice/internal/hostclock"
)

// watch makes moments and progress of what the members of a crew say about themselves. It is for one goroutine.
type watch struct {
	looks map[int]*look // the last of each member
	from  int64         // when publications begin to count, by clock; 0: not known
	now   glance
	past  []glance // the last second, oldest first

	moments []Moment
	whole   glance // when the last moment was made
}

// glance is everything that is known at one time. All of it only grows, but Subscribed.
type glance struct {
	at         int64
	published  uint64
	subscribed int
	counts     counts
	live       []int64 // counts of a histogram
}

func (w *watch) begin(from int64) { w.from = from }

// note takes what a member says.
func (w *watch) note(from int, l *look) {
	if w.looks == nil {
		w.looks = map[int]*look{}
	}
	w.looks[from] = l
}

// look makes a glance, and each second a moment.
func (w *watch) look(published uint64) {
	g := glance{at: hostclock.Now(), published: published}
	for _, l := range w.looks {
		g.subscribed += l.Subscribed
		g.counts.add(&l.Counts)
		g.live = sum(g.live, l.Live)
	}
	w.now = g
	w.past = append(w.past, g)
	for len(w.past) > 1 && g.at-w.past[1].at >= int64(time.Second) {
		w.past = w.past[1:]
	}
	if w.from == 0 || g.at < w.from {
		w.whole = g
		return
	}
	if w.whole.at < w.from {
		w.whole.at = w.from
	}
	if g.at-w.whole.at >= int64(time.Second)-int64(lookInterval)/2 {
		w.moment()
	}
}

// moment enters what has happened since the last one, unless nothing was published and nothing came.
func (w *watch) moment() {
	g, before := &w.now, &w.whole
	recent := latency(since(g.live, before.live))
	w.moments = append(w.moments, Moment{
		Second: float64(g.at-w.from) / 1e9, Published: g.published - before.published,
		Delivered: g.counts.Received - before.counts.Received, Connected: g.subscribed, P50: recent.P50, P99: recent.P99,
	})
	w.whole = *g
}

// show fills in what is known.
func (w *watch) show(p *Progress) {
	p.Clients, p.Delivered, p.Wrong = w.now.subscribed, w.now.counts.Received, w.now.counts.wrong()
	p.Latency = latency(since(w.now.live, nil))
	if len(w.past) < 2 {
		return
	}
	before := &w.past[0]
	seconds := float64(w.now.at-before.at) / 1e9
	p.Publishing = float64(w.now.published-before.published) / seconds
	p.Delivering = float64(w.now.counts.Received-before.counts.Received) / seconds
	p.Recent = latency(since(w.now.live, before.live))
}

// sum adds counts to others, which are changed, unless there are none.
func sum(to, counts []int64) []int64 {
	if to == nil {
		return slices.Clone(counts)
	}
	for i, n := range counts {
		to[i] += n
	}
	return to
}

// since is the histogram of what came between two glances.
func since(now, before []int64) *hdrhistogram.Histogram {
	counts := slices.Clone(now)
	for i, n := range before {
		counts[i] -= n
	}
	return histogramOf(counts)
}
