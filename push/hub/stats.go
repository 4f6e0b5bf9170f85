package hub

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/internal/agehist"
)

// Counts are the counters and gauges of a namespace. All but the last three only rise.
type Counts struct {
	Received  uint64 // publications that the broker delivered to this node
	Published uint64 // publications of this node that the broker accepted
	Busy      uint64 // publications of this node that the broker refused because it takes no more for now
	TooLarge  uint64 // publications of this node that the broker refused because they are larger than it stores
	Failed    uint64 // publications of this node of which it is not known whether they were stored

	Delivered   uint64 // publications that carriers took, counted once for each subscription
	Conflated   uint64 // publications that subscriptions were not sent because newer ones replaced them: see channel.ConflationCounter
	Lost        uint64 // publications evicted before a slow subscription read them; counted when the client is told, or the subscription ends
	LostUnknown uint64 // losses of an unknown number of publications, which Lost does not have

	New        uint64 // subscriptions that asked for no position, or joined a table whose rows they had just read
	Recovered  uint64 // subscriptions that resumed from a position
	FreshEpoch uint64 // subscriptions that could not resume: the channel has another epoch, or the position is of another view
	FreshFloor uint64 // subscriptions that could not resume: the publications that they missed are no longer kept
	FreshAhead uint64 // subscriptions that could not resume: the broker does not know the position

	EndedServer uint64 // subscriptions that the server ended on request
	EndedBehind uint64 // subscriptions that the server ended because publications that they had to get are gone
	EndedReset  uint64 // subscriptions that the server ended because the channel's epoch ended, or the channel could not be loaded

	Subscriptions int   // now
	Channels      int   // loaded now
	LogBytes      int64 // size of the logs of loaded channels; the janitor updates it about once a second
}

// PublishErrors returns how many publications of this node were not accepted.
func (c Counts) PublishErrors() uint64 { return c.Busy + c.TooLarge + c.Failed }

// Fresh returns how many subscriptions asked to resume from a position, and could not.
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

// Stats are the counters and gauges of a hub since New. The probe of [Hub.Ready] counts as a session, and nowhere else.
type Stats struct {
	Counts                      // of all namespaces together
	Namespaces []NamespaceStats // by name

	Shrunk   uint64 // logs that had to forget their entries because all logs together exceeded Options.LogBytes
	Sessions int    // now
	Blocked  int    // sessions whose carrier refuses frames now
	Stalls   uint64 // how often carriers began to refuse frames
	Waiting  int    // channels, batches and sessions that wait for a worker now
}

// Stats returns the hub's counters, which are not read at one instant. It takes a few short locks, and none for each session or channel, so
// that frequent calls are cheap.
func (h *Hub) Stats() Stats {
	s := Stats{Shrunk: h.stats.shrunk.Load(), Blocked: int(h.stats.blocked.Load()), Stalls: h.stats.stalls.Load(), Waiting: h.workers.waiting()}
	h.mu.Lock()
	s.Sessions = len(h.sessions)
	h.mu.Unlock()
	for _, n := range h.namespaces {
		if !isReserved(n.Name) {
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

// hubCounters are the counters of the hub as a whole, see Stats.
type hubCounters struct {
	shrunk, stalls atomic.Uint64
	blocked        atomic.Int64
}

// counters are the counters of a namespace, see Counts. A goroutine adds to delivered once a quantum, not once a delivery.
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
	fromNothing freshness = iota // the client gave no position
	otherEpoch
	belowFloor
	aboveHead
)

// freshnessOf returns why a subscription cannot resume from the position asked, in a channel that is at the position at. isVoid says that
// confirm has found the position void.
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

// countSubscribe counts the outcome of a request. fresh is the reason for a fresh start.
func (c *counters) countSubscribe(r *SubscribeRequest, outcome channel.Outcome, fresh freshness) {
	switch {
	case r.Joins && outcome != channel.Fresh:
		c.fresh[fromNothing].Add(1)
	case r.Joins: // not counted: the client reads the rows again
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

// Observer gets the durations of fan-out and the ages of deliveries. The goroutines that serve subscribers call its functions concurrently.
// The functions must be quick, must not wait and must not call the hub. A nil function is not called.
type Observer struct {
	// BatchDone is called at the end of a fan-out batch that made deliveries. took is the time since the batch was made, in which its new
	// publications were offered to all subscribers. deliveries is the number of publications that carriers took.
	BatchDone func(took time.Duration, deliveries int)
	// Delivered is called after carriers took n publications of one age. age is the time since the broker accepted them, by the broker's
	// clock, in whole milliseconds at the broker. It is negative if that clock is ahead of this node's. fromLog says that the publications were
	// read from the log, by subscriptions that the fan-out batch did not serve: they are slow, or catch up after a resume.
	Delivered func(age time.Duration, n int, fromLog bool)
}

// deliveryCounts counts deliveries of a goroutine that are not yet added to the counters of namespaces. It belongs to a sessionWrite.
type deliveryCounts struct {
	delivered []namespaceCount
	ages      agehist.Counts
}

type namespaceCount struct {
	namespace *namespace
	n         int
}

// count counts the frames of a share that the carrier took. isWhole says that it took all of them.
func (c *deliveryCounts) count(p *share, frames []Frame, isWhole bool) {
	n := p.sub.topic.part.namespace
	isObserved := p.sub.session.hub.observer != nil && n.Name != probeNamespace
	publications := 0
	for i := range frames {
		publications += frames[i].Publications
		if lost := frames[i].lost; lost != 0 {
			n.counts.countLost(lost)
		}
		if isObserved {
			c.ages.Add(frames[i].accepted, frames[i].Publications, p.fromLog)
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

// settle adds the counts to the counters of namespaces, calls the observer, if there is one, and returns the number of deliveries.
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
			o.Delivered(now.Sub(time.UnixMilli(a.Time)), a.N, a.FromLog)
		}
	}
	return deliveries
}

// account updates the conflation counter of a subscription of a table or value channel, and counts the publications that were conflated for it.
func (sub *Subscription) account(p *share, publications int, isWhole bool) {
	n := sub.topic.part.namespace
	switch {
	case n.Mode == push.Stream || sub.view != nil: // a stream conflates nothing, and the counter does not know what a view leaves out
	case p.fromLog:
		var conflated int
		if sub.conflation, conflated = sub.conflation.Count(publications, sub.cursor, p.progress); conflated > 0 {
			n.counts.conflated.Add(uint64(conflated))
		}
	case isWhole:
		sub.conflation = channel.ConflationCounterAt(p.progress.Ordinal)
	case sub.conflation != 0:
		sub.conflation += channel.ConflationCounter(publications) //nolint:gosec // few
	}
}

// countLost counts publications that a subscription lost; −1 says that their number is not known.
func (c *counters) countLost(lost int64) {
	if lost < 0 {
		c.lostUnknown.Add(1)
	} else {
		c.lost.Add(uint64(lost))
	}
}
