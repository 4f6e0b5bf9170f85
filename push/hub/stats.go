package hub

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub/counters"
	"github.com/sluice-push/sluice/push/internal/agehist"
)

// Counts are the counters and gauges of a namespace.
type Counts = counters.Counts

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
			s.Add(&counts)
			s.Namespaces = append(s.Namespaces, NamespaceStats{n.Name, counts})
		}
	}
	slices.SortFunc(s.Namespaces, func(a, b NamespaceStats) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// read returns the namespace's counts.
func (n *namespace) read() Counts {
	out := n.counts.Read()
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

// countEnded counts a subscription that the server ended.
func (sub *Subscription) countEnded(u push.Unsubscribe) {
	c := &sub.topic.part.namespace.counts
	switch {
	case u.Code < push.UnsubscribeInsufficientState.Code:
		c.EndedServer.Add(1)
	case sub.topic.ended.Load() != nil:
		c.EndedReset.Add(1)
	default:
		c.EndedBehind.Add(1)
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
			n.counts.CountLost(lost)
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
			one.namespace.counts.Delivered.Add(uint64(one.n))
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
			n.counts.Conflated.Add(uint64(conflated))
		}
	case isWhole:
		sub.conflation = channel.ConflationCounterAt(p.progress.Ordinal)
	case sub.conflation != 0:
		sub.conflation += channel.ConflationCounter(publications) //nolint:gosec // few
	}
}
