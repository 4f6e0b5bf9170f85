package loadtest

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/hostclock"
)

// latency returns the distribution in a histogram, in milliseconds.
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

// counts counts deliveries.
type counts struct {
	Received   uint64 // of publications that count to clients that read, each once
	Distinct   uint64 // of all publications, each once
	Duplicated uint64
	Disordered uint64
	Corrupt    uint64
	Foreign    uint64 // of other runs
	Open       uint64 // missing before later ones at the moment, and not announced by the server
}

func (c *counts) add(o *counts) {
	c.Received += o.Received
	c.Distinct += o.Distinct
	c.Duplicated += o.Duplicated
	c.Disordered += o.Disordered
	c.Corrupt += o.Corrupt
	c.Foreign += o.Foreign
	c.Open += o.Open
}

// wrong returns how many deliveries were wrong or are missing.
func (c *counts) wrong() uint64 { return c.Open + c.Duplicated + c.Disordered + c.Corrupt }

// shard holds the counters of a part of a group's clients. Several shards keep the clients from contending for one lock.
type shard struct {
	mu             sync.Mutex // guards the fields below, and the state of the clients of the shard
	received       *delivery.Set
	counts         counts
	live           *hdrhistogram.Histogram // latencies of clients that read
	stalled        *hdrhistogram.Histogram // latencies of clients that stall, from when they stop on
	lastReceivedAt int64                   // host clock; the last delivery that counts to a client that reads
	caughtUp       int64                   // host clock; the last delivery of a publication that was due before its client rejoined
}

// numShards is the number of shards of a group.
const numShards = 8

func newShard(streams int) *shard {
	return &shard{received: delivery.NewSet(streams), live: delivery.NewHistogram(), stalled: delivery.NewHistogram()}
}

// deliverLocked checks and records a publication that came to a client. offset is 0 if the server gave none.
func (g *group) deliverLocked(c *client, channel uint32, data []byte, offset uint64) {
	t := c.shard
	s, v := g.payloads.Read(data)
	base, index, mine := -1, 0, false
	if v == delivery.Valid {
		base, index, mine = g.findStream(c, s.Stream)
		mine = mine && (channel == anyChannel || channel == s.Stream/uint32(g.plan.streamsPerChannel)) //nolint:gosec // below delivery.MaxStreams
	}
	switch {
	case v == delivery.Foreign:
		t.counts.Foreign++
		return
	case !mine:
		t.counts.Corrupt++
		return
	}
	if g.resumes {
		at := (base - c.firstStream) / g.plan.streamsPerChannel
		c.positions[at].Offset = max(c.positions[at].Offset, offset)
	}
	switch t.received.Receive(base, index, s.Seq, offset) {
	case delivery.Duplicated:
		t.counts.Duplicated++
		return
	case delivery.Disordered:
		t.counts.Disordered++
	case delivery.First:
	}
	t.counts.Distinct++
	g.recordLatencyLocked(c, &s)
}

// anyChannel is the channel of a publication that came without the name of one.
const anyChannel = ^uint32(0)

// recordLatencyLocked records the latency of the first delivery of a publication to a client. In a closed loop, the last client completes it.
func (g *group) recordLatencyLocked(c *client, s *delivery.Header) {
	t, now := c.shard, hostclock.Now()
	micros := (now - s.Due) / 1000
	from := g.measureFrom.Load()
	measured := from != 0 && s.Due >= from && s.Due < g.measureTo.Load()
	if c.stalls { // such a client never counts as a reader, even before it stalls: no delivery to it is expected
		if measured && g.stalling.Load() {
			delivery.RecordLatency(t.stalled, micros)
		}
		return
	}
	if measured {
		t.counts.Received++
		t.lastReceivedAt = now
		delivery.RecordLatency(t.live, micros)
	}
	if s.Due < c.resubscribedAt {
		t.caughtUp = now
	}
	have := g.pubStats.At(s.K).AddDelivery(micros)
	if !g.plan.isClosedLoop() {
		return
	}
	for seen := g.seen.Load(); seen <= s.K && !g.seen.CompareAndSwap(seen, s.K+1); seen = g.seen.Load() {
	}
	if int64(have) == g.readers[s.Stream/uint32(g.plan.streamsPerChannel)].Load() { //nolint:gosec // below delivery.MaxStreams
		g.completed(s.K)
	}
}

// findStream returns where the stream of a publication is in the client's delivery.Set: the first stream of its channel, and the index from there.
// ok is false if the client does not subscribe to the channel.
func (g *group) findStream(c *client, stream uint32) (base, index int, ok bool) {
	perChannel := uint32(g.plan.streamsPerChannel) //nolint:gosec // at most delivery.MaxStreams
	at, ok := c.find(stream / perChannel)
	return c.firstStream + at*int(perChannel), int(stream % perChannel), ok
}
