package hub

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/ages"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// Counts are what a hub counts in a namespace. All but the last three only rise.
type Counts struct {
	Received  uint64 // publications that the broker delivered to this node
	Published uint64 // publications of this node that the broker accepted
	Busy      uint64 // publications of this node that the broker refused because it takes no more for now
	TooLarge  uint64 // and because they are larger than it stores
	Failed    uint64 // and of which it is not known whether they were stored

	Delivered   uint64 // publications that carriers took, each as often as it was
	Conflated   uint64 // publications that subscriptions were not sent because newer ones took their places: see channel.Tally
	Lost        uint64 // publications that were evicted before a slow subscription had read them; counted when it is told, or ends for it
	LostUnknown uint64 // times that it is not known how many these were

	New        uint64 // subscriptions that asked for no position, or joined a table whose rows they had just read
	Recovered  uint64 // subscriptions that went on from a position
	FreshEpoch uint64 // subscriptions that could not: the channel has another life by now, or the position is of another view
	FreshFloor uint64 // likewise: what was missed is not kept any more
	FreshAhead uint64 // likewise: the broker does not know the position

	EndedServer uint64 // subscriptions that the server ended because it was asked to
	EndedBehind uint64 // because they were too slow, so that something is lost
	EndedReset  uint64 // because the channel's life ended, or it could not be loaded

	Subscriptions int   // now
	Channels      int   // loaded now
	LogBytes      int64 // what the entries of loaded channels count for, when the janitor last looked: once a second
}

// PublishErrors returns how many publications of this node were not accepted.
func (c Counts) PublishErrors() uint64 { return c.Busy + c.TooLarge + c.Failed }

// Fresh returns how many subscriptions asked to go on from a position, and could not.
func (c Counts) Fresh() uint64 { return c.FreshEpoch + c.FreshFloor + c.FreshAhead }

// Ended returns how many subscriptions the server ended.
func (c Counts) Ended() uint64 { return c.EndedServer + c.EndedBehind + c.EndedReset }

// add adds the counts of another namespace.
func (c *Counts) add(o *Counts) {
	for _, p := range [...]struct{ to, from *uint64 }{
		{&c.Received, &o.Received},
		{&c.Published, &o.Published},
		{&c.Busy, &o.Busy},
		{&c.TooLarge, &o.TooLarge},
		{&c.Failed, &o.Failed},
		{&c.Delivered, &o.Delivered},
		{&c.Conflated, &o.Conflated},
		{&c.Lost, &o.Lost},
		{&c.LostUnknown, &o.LostUnknown},
		{&c.New, &o.New},
		{&c.Recovered, &o.Recovered},
		{&c.FreshEpoch, &o.FreshEpoch},
		{&c.FreshFloor, &o.FreshFloor},
		{&c.FreshAhead, &o.FreshAhead},
		{&c.EndedServer, &o.EndedServer},
		{&c.EndedBehind, &o.EndedBehind},
		{&c.EndedReset, &o.EndedReset},
	} {
		*p.to += *p.from
	}
	c.Subscriptions += o.Subscriptions
	c.Channels += o.Channels
	c.LogBytes += o.LogBytes
}

// NamespaceStats are the counts of one namespace.
type NamespaceStats struct {
	Name string
	Counts
}

// Stats is what a hub has counted since it began. The hub's own probe counts for nothing but a session.
type Stats struct {
	Counts                      // of all namespaces together
	Namespaces []NamespaceStats // by name

	Shrunk   uint64 // logs that had to forget their entries because all together exceeded Options.LogBytes
	Sessions int    // now
	Blocked  int    // sessions whose carrier takes nothing now
	Stalls   uint64 // how often carriers began to take nothing
	Waiting  int    // channels, rounds and sessions that wait for a worker now
}

// Stats returns the counters. They are not read at one instant. It takes a few short locks, none for each session or channel, so that it
// may be called as often as one likes.
func (h *Hub) Stats() Stats {
	s := Stats{Shrunk: h.stats.shrunk.Load(), Blocked: int(h.stats.blocked.Load()), Stalls: h.stats.stalls.Load(), Waiting: h.workers.waiting()}
	h.mu.Lock()
	s.Sessions = len(h.sessions)
	h.mu.Unlock()
	for _, n := range h.namespaces {
		if n.Name != probeNamespace {
			counts := n.read()
			s.add(&counts)
			s.Namespaces = append(s.Namespaces, NamespaceStats{n.Name, counts})
		}
	}
	slices.SortFunc(s.Namespaces, func(a, b NamespaceStats) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// read returns the namespace's counts.
func (n *namespace) read() Counts {
	c := &n.counts
	out := Counts{
		Received: c.received.Load(), Published: c.published.Load(),
		Busy: c.busy.Load(), TooLarge: c.tooLarge.Load(), Failed: c.failed.Load(),
		Delivered: c.delivered.Load(), Conflated: c.conflated.Load(), Lost: c.lost.Load(), LostUnknown: c.lostUnknown.Load(),
		New: c.fresh[fromNothing].Load(), Recovered: c.recovered.Load(),
		FreshEpoch: c.fresh[otherEpoch].Load(), FreshFloor: c.fresh[belowFloor].Load(), FreshAhead: c.fresh[aboveHead].Load(),
		EndedServer: c.endedServer.Load(), EndedBehind: c.endedBehind.Load(), EndedReset: c.endedReset.Load(),
		Subscriptions: int(c.subscriptions.Load()), LogBytes: c.logBytes.Load(),
	}
	for _, p := range n.partitions {
		p.mu.Lock()
		out.Channels += len(p.topics)
		p.mu.Unlock()
	}
	return out
}

// hubCounters are those of the hub as a whole.
type hubCounters struct {
	shrunk, stalls atomic.Uint64
	blocked        atomic.Int64
}

// counters are those of a namespace, see Counts. What counts deliveries is added to once a stint, not once a delivery.
type counters struct {
	received, published, busy, tooLarge, failed atomic.Uint64
	delivered, conflated, lost, lostUnknown     atomic.Uint64
	recovered                                   atomic.Uint64
	fresh                                       [4]atomic.Uint64 // by freshness
	endedServer, endedBehind, endedReset        atomic.Uint64
	subscriptions, logBytes                     atomic.Int64
}

// freshness says why a subscription starts fresh.
type freshness int

const (
	fromNothing freshness = iota // it asked for nothing else
	otherEpoch
	belowFloor
	aboveHead
)

// freshnessOf says why asked does not lead to a subscription that goes on, in a channel that is at a position by now. isVoid says that
// the broker was asked about it.
func freshnessOf(asked *push.Position, at push.Position, isVoid bool) freshness {
	switch {
	case asked == nil:
		return fromNothing
	case asked.Epoch != at.Epoch:
		return otherEpoch
	case isVoid, asked.Offset > push.MaxOffset:
		return aboveHead
	default:
		return belowFloor
	}
}

// countSubscribe counts what became of a request, fresh if that is the outcome.
func (c *counters) countSubscribe(r *SubscribeRequest, outcome channel.Outcome, fresh freshness) {
	switch {
	case r.Joins && outcome != channel.Fresh:
		c.fresh[fromNothing].Add(1)
	case r.Joins: // it reads the rows once more
	case outcome != channel.Fresh:
		c.recovered.Add(1)
	default:
		c.fresh[fresh].Add(1)
	}
}

// countEnded counts a subscription that the server ended.
func (sub *Subscription) countEnded(u push.Unsubscribe) {
	c := &sub.topic.part.namespace.counts
	switch {
	case u.Code < push.UnsubscribeInsufficientState.Code:
		c.endedServer.Add(1)
	case sub.topic.ended.Load() != nil:
		c.endedReset.Add(1)
	default:
		c.endedBehind.Add(1)
	}
}

// Observer is told what takes how long, where a counter does not say enough. Its functions are called by those who serve subscribers,
// concurrently: they must be quick, must not wait and must not call the hub. A nil function is not called.
type Observer struct {
	// Passed is called after a round: what was new in some channels was offered to all their subscribers, which took so long and made so
	// many deliveries.
	Passed func(took time.Duration, deliveries int)
	// Delivered is called after carriers took n times a publication that the broker accepted so long ago, by the broker's clock, which
	// counts milliseconds. A clock that is ahead of this node's makes it negative. isLate says that it was read from the log by subscriptions
	// that were not served in the round: they are slow, or catch up after they were away.
	Delivered func(age time.Duration, n int, isLate bool)
}

// deliveryCounts is what a goroutine has delivered and not yet added to the counters of namespaces. It belongs to a batch.
type deliveryCounts struct {
	delivered []namespaceCount
	ages      ages.Counts
}

type namespaceCount struct {
	namespace *namespace
	n         int
}

// count accounts for the frames of a part that were taken.
func (c *deliveryCounts) count(p *part, frames []Frame, isWhole bool) {
	n := p.sub.topic.part.namespace
	isObserved := p.sub.session.hub.observer != nil && n.Name != probeNamespace
	publications := 0
	for i := range frames {
		publications += frames[i].Publications
		if lost := frames[i].lost; lost != 0 {
			n.counts.countLost(lost)
		}
		if isObserved {
			c.ages.Add(frames[i].accepted, frames[i].Publications, p.isLate)
		}
	}
	p.sub.account(p, publications, isWhole)
	for i := range c.delivered {
		if c.delivered[i].namespace == n {
			c.delivered[i].n += publications
			return
		}
	}
	c.delivered = append(c.delivered, namespaceCount{n, publications})
}

// settle adds what was counted to the counters, tells the observer, if there is one, and returns how many deliveries there were.
func (c *deliveryCounts) settle(o *Observer) (deliveries int) {
	for i := range c.delivered {
		one := &c.delivered[i]
		if one.n > 0 {
			one.namespace.counts.delivered.Add(uint64(one.n))
		}
		if one.namespace.Name != probeNamespace {
			deliveries += one.n
		}
	}
	clear(c.delivered)
	c.delivered = c.delivered[:0]
	if counts := c.ages.Take(); len(counts) > 0 && o.Delivered != nil {
		now := time.Now()
		for _, a := range counts {
			o.Delivered(now.Sub(time.UnixMilli(a.Time)), a.N, a.IsLate)
		}
	}
	return deliveries
}

// account notes what a subscription of a table or value channel has got, and counts what it will not get.
func (sub *Subscription) account(p *part, publications int, isWhole bool) {
	n := sub.topic.part.namespace
	switch {
	case n.Mode == push.Stream || sub.view != nil: // of a stream nothing is left out, and of a view it is not known
	case p.isLate:
		var conflated int
		if sub.tally, conflated = sub.tally.Count(publications, sub.cursor, p.progress); conflated > 0 {
			n.counts.conflated.Add(uint64(conflated))
		}
	case isWhole:
		sub.tally = channel.TallyAt(p.progress.Ordinal)
	case sub.tally != 0:
		sub.tally += channel.Tally(publications) //nolint:gosec // few
	}
}

// countLost counts publications that a subscription did not get, −1 when nobody knows how many.
func (c *counters) countLost(lost int64) {
	if lost < 0 {
		c.lostUnknown.Add(1)
	} else {
		c.lost.Add(uint64(lost))
	}
}
