package loadtest

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
)

// workerResult is the result of the clients of one worker. The run adds the results of all workers.
type workerResult struct {
	Clients int            // that were subscribed
	Failed  int            // that never were
	Cut     int            // connections that the server or the network ended for good
	Joined  int64          // host clock; when a client was last subscribed
	Reasons map[string]int // why connections failed or ended

	Counts   counts
	Expected uint64 // deliveries of publications that count
	Missing  delivery.Missed
	WarmLost uint64 // the part of Missing.Lost that belongs to the warm-up
	LastAt   int64  // host clock; the last delivery of a publication that counts

	Live    []int64  // counts of the latency histogram of the clients that read
	Stalled []int64  // likewise, of the clients that stall; nil if none does
	Slowest []uint32 // see delivery.PubStats.Slowest; from the first publication that counts

	WasCut, Back, Resumed, NotResumed int   // see Recovery
	Resets, NotRejoined               int   // see Connects
	CutAt, BackAt, CaughtUp           int64 // host clock; CutAt is 0 if there was no storm
}

// The timing of drain.
const (
	gracePeriod  = 250 * time.Millisecond // how long it waits for wrong deliveries after every publication has come
	pollInterval = 20 * time.Millisecond  // how often it checks whether every publication has come
)

// drain waits until every client that reads has every publication, and for the grace period after that. It returns early if ctx ends.
func (g *group) drain(ctx context.Context, published []delivery.Published) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if g.hasAll(published) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(gracePeriod)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hasAll reports whether drain is done: no subscribed client lacks a publication, and each disconnected client has rejoined.
func (g *group) hasAll(published []delivery.Published) bool {
	for _, c := range g.clients {
		if !g.hasAllOf(c, published) {
			return false
		}
	}
	return true
}

func (g *group) hasAllOf(c *client, published []delivery.Published) bool {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	switch {
	case c.stalls, c.state == ended, c.state == disconnected && !c.resuming:
		return true
	case c.state != subscribed:
		return false // the client is rejoining
	}
	for i := range c.channels {
		if !c.unsubscribed[i] && g.missingLocked(c, i, published).Lost > 0 {
			return false
		}
	}
	return true
}

// missingLocked counts the missing publications of a client in the channel with index at.
func (g *group) missingLocked(c *client, at int, published []delivery.Published) (n delivery.Missed) {
	perChannel := g.plan.streamsPerChannel
	endAnnounced := c.unsubscribed[at] || c.state == ended && c.endAnnounced
	announcedAt := c.resubscribedAt + int64(gracePeriod) // a server that does not confirm subscriptions may take a moment to make one
	for index := range perChannel {
		m := c.shard.received.Missing(c.firstStream+at*perChannel+index, &published[int(c.channels[at])*perChannel+index], endAnnounced, announcedAt)
		n.Lost += m.Lost
		n.Announced += m.Announced
	}
	return n
}

// result returns the result of the group. first is the first publication that counts.
func (g *group) result(published []delivery.Published, first uint32) *workerResult {
	s := &workerResult{Joined: g.lastSubscribedAt.Load(), Reasons: g.reasons.All(), Cut: int(g.cut.Load()), Slowest: g.pubStats.Slowest(first)}
	live := delivery.NewHistogram()
	for _, t := range g.shards {
		t.mu.Lock()
		s.Counts.add(&t.counts)
		s.Missing.Lost += t.received.Uncounted().Lost
		s.Missing.Announced += t.received.Uncounted().Announced
		s.LastAt, s.CaughtUp = max(s.LastAt, t.lastReceivedAt), max(s.CaughtUp, t.caughtUp)
		live.Merge(t.live)
		t.mu.Unlock()
	}
	s.Live = live.Export().Counts
	warm := uint64(0)
	for _, c := range g.clients {
		warm += g.addClient(s, c, published)
	}
	s.WarmLost = warm
	s.CutAt, s.WasCut, s.Resets = g.cutAt.Load(), g.wasCut, int(g.resets.Load())
	return s
}

// addClient adds a client to a result. It returns how many publications of the warm-up the client has lost.
func (g *group) addClient(s *workerResult, c *client, published []delivery.Published) (warm uint64) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.state != subscribed && c.state != ended && !c.resuming {
		s.Failed++
		return 0
	}
	s.Clients++
	if g.rejoins != nil && c.state != subscribed && c.state != ended {
		s.NotRejoined++
	}
	if c.resuming && c.state == subscribed {
		s.Back++
		s.BackAt = max(s.BackAt, c.resubscribedAt)
		if c.notResumed {
			s.NotResumed++
		} else {
			s.Resumed++
		}
	}
	if c.stalls {
		return 0
	}
	for i, channel := range c.channels {
		n := g.missingLocked(c, i, published)
		s.Missing.Lost += n.Lost
		s.Missing.Announced += n.Announced
		perChannel := g.plan.streamsPerChannel
		for index := range perChannel {
			of := &published[int(channel)*perChannel+index]
			s.Expected += of.Known(of.From, of.Last)
			early := delivery.Published{Last: min(of.From-1, of.Last), Holes: of.Holes}
			warm += c.shard.received.Missing(c.firstStream+i*perChannel+index, &early, false, 0).Lost
		}
	}
	return warm
}

// resumeReading lets the stalled clients read again. It may be called more than once.
func (g *group) resumeReading() { g.resumeOnce.Do(func() { close(g.readAgain) }) }

// The timing of drainStalled.
const (
	quietInterval     = 100 * time.Millisecond // it returns if nothing has come for so long
	maxQuietIntervals = 20                     // after so many intervals it returns in any case
)

// drainStalled lets the stalled clients read again, and waits until nothing more comes, or until maxQuietIntervals have passed. It returns the
// counts of the histogram of their latencies, or nil if no client was to stall.
func (g *group) drainStalled(ctx context.Context) []int64 {
	g.resumeReading()
	if !g.plan.spec.stalls() {
		return nil
	}
	tick := time.NewTicker(quietInterval)
	defer tick.Stop()
	sum := g.stalledLatencies()
	for range maxQuietIntervals {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sum.Export().Counts
		}
		before := sum.TotalCount()
		if sum = g.stalledLatencies(); sum.TotalCount() == before {
			break
		}
	}
	return sum.Export().Counts
}

// stalledLatencies returns the histogram of the latencies of the stalled clients.
func (g *group) stalledLatencies() *hdrhistogram.Histogram {
	sum := delivery.NewHistogram()
	for _, t := range g.shards {
		t.mu.Lock()
		sum.Merge(t.stalled)
		t.mu.Unlock()
	}
	return sum
}
