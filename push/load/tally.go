package load

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-push/sluice/internal/hostclock"
)

// Latencies are counted in microseconds, to three digits, up to an hour.
const (
	leastMicros = 1
	mostMicros  = 3_600_000_000
	digits      = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(leastMicros, mostMicros, digits) }

// record enters a latency. What is not between the bounds counts as the nearer one.
func record(h *hdrhistogram.Histogram, micros int64) {
	_ = h.RecordValue(min(max(micros, leastMicros), mostMicros)) // which is within the bounds
}

// latency says what a histogram holds, in milliseconds.
func latency(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return Latency{
		Count: uint64(h.TotalCount()), //nolint:gosec // a count
		Mean:  h.Mean() / 1e3, P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1e3,
	}
}

// counts is what has arrived.
type counts struct {
	Received   uint64 // of the publications that count, each once
	Noted      uint64 // of all, each once
	Duplicated uint64
	Disordered uint64
	Corrupt    uint64
	Foreign    uint64 // of other runs
	Open       uint64 // missing in between as far as is known, and nobody has told
}

func (c *counts) add(o *counts) {
	c.Received += o.Received
	c.Noted += o.Noted
	c.Duplicated += o.Duplicated
	c.Disordered += o.Disordered
	c.Corrupt += o.Corrupt
	c.Foreign += o.Foreign
	c.Open += o.Open
}

// wrong is how much of it should not be.
func (c *counts) wrong() uint64 { return c.Open + c.Duplicated + c.Disordered + c.Corrupt }

// tally is what some clients of a group count together, so that not all of them share one lock.
type tally struct {
	mu       sync.Mutex // guards all, and the clients whose tally it is
	ledger   *ledger
	counts   counts
	live     *hdrhistogram.Histogram // of clients that read
	stalled  *hdrhistogram.Histogram // of clients that stopped
	lastAt   int64                   // when the last publication that counts came to one that reads
	caughtUp int64                   // shape storm: when the last came that was due while its client was away
}

// tallies is how many there are in a group.
const tallies = 8

func newTally(entries int) *tally {
	return &tally{ledger: newLedger(entries), live: newHistogram(), stalled: newHistogram()}
}

// deliver enters what came to a client.
func (g *group) deliverLocked(c *client, channel uint32, data []byte, offset uint64) {
	t := c.tally
	s, v := g.payloads.read(data)
	base, lane, mine := -1, 0, false
	if v == sound {
		base, lane, mine = g.streamOf(c, s.stream)
		mine = mine && (channel == anyChannel || channel == s.stream/uint32(g.plan.lanes)) //nolint:gosec // below maxStreams
	}
	switch {
	case v == foreign:
		t.counts.Foreign++
		return
	case !mine:
		t.counts.Corrupt++
		return
	}
	if g.resumes && offset > c.offset {
		c.offset = offset
	}
	switch t.ledger.note(base, lane, s.seq, offset) {
	case duplicated:
		t.counts.Duplicated++
		return
	case disordered:
		t.counts.Disordered++
	case first:
	}
	t.counts.Noted++
	g.timeLocked(c, &s)
}

// anyChannel stands for a publication that came without the name of a channel.
const anyChannel = ^uint32(0)

// timeLocked enters how long a publication took that came to a client for the first time.
func (g *group) timeLocked(c *client, s *stamp) {
	t, now := c.tally, hostclock.Now()
	micros := (now - s.due) / 1000
	from := g.measureFrom.Load()
	measured := from != 0 && s.due >= from && s.due < g.measureTo.Load()
	if c.stalls { // before it does, too: it is not among those of whom something is expected
		if measured && g.stalling.Load() {
			record(t.stalled, micros)
		}
		return
	}
	if measured {
		t.counts.Received++
		t.lastAt = now
		record(t.live, micros)
	}
	if s.due < c.backAt {
		t.caughtUp = now
	}
	have := g.tracks.at(s.k).note(micros)
	if !g.plan.closed() {
		return
	}
	for seen := g.seen.Load(); seen <= s.k && !g.seen.CompareAndSwap(seen, s.k+1); seen = g.seen.Load() {
	}
	if int64(have) == g.readers[s.stream/uint32(g.plan.lanes)].Load() { //nolint:gosec // below maxStreams
		g.completed(s.k)
	}
}

// streamOf finds a stream among those of a client: where those of its channel begin, and which it is.
func (g *group) streamOf(c *client, stream uint32) (base, lane int, ok bool) {
	lanes := uint32(g.plan.lanes) //nolint:gosec // at most maxStreams
	at, ok := c.find(stream / lanes)
	return c.entries + at*int(lanes), int(stream % lanes), ok
}
