package load

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// share is what came of the clients of one process.
type share struct {
	Clients int
	Failed  int
	Cut     int
	Joined  int64 // when the last one was subscribed for the first time
	Reasons map[string]int

	Counts   counts
	Expected uint64
	Missing  lostCount
	WarmLost uint64 // of Missing.Lost: of the publications that did not count
	LastAt   int64

	Live    []int64  // counts of histograms
	Stalled []int64  // likewise; nil when nobody was to stop reading
	Slowest []uint32 // see tracks, from the first that counts

	WasCut, Back, Resumed, Fresh int
	Resets, Away                 int // by the network, and clients that were not back from that
	CutAt, BackAt, CaughtUp      int64
}

// How long a group waits for what should not come, after all has, and how often it looks.
const (
	graceTime = 250 * time.Millisecond
	lookTime  = 20 * time.Millisecond
)

// drain waits until all has come, or ctx has ended.
func (g *group) drain(ctx context.Context, courses []course) {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		if g.hasAll(courses) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(graceTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hasAll reports whether there is nothing to wait for: all who can still get something have all, and all who were cut are back.
func (g *group) hasAll(courses []course) bool {
	for _, c := range g.clients {
		if !g.hasAllOf(c, courses) {
			return false
		}
	}
	return true
}

func (g *group) hasAllOf(c *client, courses []course) bool {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	switch {
	case c.stalls, c.state == ended, c.state == apart && !c.resuming:
		return true
	case c.state != subscribed:
		return false // it is coming back
	}
	for i := range c.channels {
		if !c.left[i] && g.missingLocked(c, i, courses).Lost > 0 {
			return false
		}
	}
	return true
}

// missingLocked counts what a client has not got of one of its channels.
func (g *group) missingLocked(c *client, at int, courses []course) (n lostCount) {
	lanes := g.plan.lanes
	over := c.left[at] || c.state == ended && c.told
	back := c.backAt + int64(graceTime) // a server without an answer to subscriptions may take a moment
	for lane := range lanes {
		m := c.tally.ledger.missing(c.entries+at*lanes+lane, &courses[int(c.channels[at])*lanes+lane], over, back)
		n.Lost += m.Lost
		n.Told += m.Told
	}
	return n
}

// share counts what came and what did not.
func (g *group) share(courses []course, first uint32) *share {
	s := &share{Joined: g.lastJoin.Load(), Reasons: g.reasons.All(), Cut: int(g.cut.Load()), Slowest: g.tracks.slowest(first)}
	live := newHistogram()
	for _, t := range g.tallies {
		t.mu.Lock()
		s.Counts.add(&t.counts)
		s.Missing.Lost += t.ledger.lost.Lost
		s.Missing.Told += t.ledger.lost.Told
		s.LastAt, s.CaughtUp = max(s.LastAt, t.lastAt), max(s.CaughtUp, t.caughtUp)
		live.Merge(t.live)
		t.mu.Unlock()
	}
	s.Live = live.Export().Counts
	warm := uint64(0)
	for _, c := range g.clients {
		warm += g.account(s, c, courses)
	}
	s.WarmLost = warm
	s.CutAt, s.WasCut, s.Resets = g.cutAt.Load(), g.wasCut, int(g.resets.Load())
	return s
}

// account adds a client to a share. It returns how much it has lost of what did not count.
func (g *group) account(s *share, c *client, courses []course) (warm uint64) {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.state != subscribed && c.state != ended && !c.resuming {
		s.Failed++
		return 0
	}
	s.Clients++
	if g.away != nil && c.state != subscribed && c.state != ended {
		s.Away++
	}
	if c.resuming && c.state == subscribed {
		s.Back++
		s.BackAt = max(s.BackAt, c.backAt)
		if c.fresh {
			s.Fresh++
		} else {
			s.Resumed++
		}
	}
	if c.stalls {
		return 0
	}
	for i, channel := range c.channels {
		n := g.missingLocked(c, i, courses)
		s.Missing.Lost += n.Lost
		s.Missing.Told += n.Told
		lanes := g.plan.lanes
		for lane := range lanes {
			of := &courses[int(channel)*lanes+lane]
			s.Expected += of.known(of.From, of.Last)
			early := course{Last: min(of.From-1, of.Last), Holes: of.Holes}
			warm += c.tally.ledger.missing(c.entries+i*lanes+lane, &early, false, 0).Lost
		}
	}
	return warm
}

// freed lets those that stopped reading read again.
func (g *group) freed() { g.freeing.Do(func() { close(g.released) }) }

// How long those that stopped reading are waited for in the end: until nothing has come for a while, at most so many times.
const (
	quietTime  = 100 * time.Millisecond
	quietTimes = 20
)

// release lets those that stopped reading read again until nothing more comes, or some time has passed, and returns how long what they got
// took, nil when none was to stop.
func (g *group) release(ctx context.Context) []int64 {
	g.freed()
	if !g.plan.spec.stalls() {
		return nil
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	sum := g.late()
	for range quietTimes {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sum.Export().Counts
		}
		before := sum.TotalCount()
		if sum = g.late(); sum.TotalCount() == before {
			break
		}
	}
	return sum.Export().Counts
}

// late is what those got that stopped reading.
func (g *group) late() *hdrhistogram.Histogram {
	sum := newHistogram()
	for _, t := range g.tallies {
		t.mu.Lock()
		sum.Merge(t.stalled)
		t.mu.Unlock()
	}
	return sum
}
