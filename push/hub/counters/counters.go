// Package counters counts what happens in a namespace of a hub: publications, deliveries, losses, and how subscriptions begin and end.
package counters

import (
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// Counts are the counters and gauges of a namespace. All but the last three only rise.
type Counts struct {
	Received  uint64 // publications that the broker delivered to this node
	Published uint64 // publications of this node, and of its gateways, that the broker accepted
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

// Add adds the counts of another namespace.
func (c *Counts) Add(o *Counts) {
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

// Counters are the counters of a namespace, see [Counts]. All fields and methods may be used concurrently. The zero Counters has counted nothing.
type Counters struct {
	Received, Published, Busy, TooLarge, Failed atomic.Uint64
	Delivered, Conflated                        atomic.Uint64
	EndedServer, EndedBehind, EndedReset        atomic.Uint64
	Subscriptions, LogBytes                     atomic.Int64

	lost, lostUnknown, recovered atomic.Uint64
	fresh                        [4]atomic.Uint64 // by Freshness
}

// Read returns the counts, without Channels. They are not read at one instant.
func (c *Counters) Read() Counts {
	return Counts{
		Received: c.Received.Load(), Published: c.Published.Load(),
		Busy: c.Busy.Load(), TooLarge: c.TooLarge.Load(), Failed: c.Failed.Load(),
		Delivered: c.Delivered.Load(), Conflated: c.Conflated.Load(), Lost: c.lost.Load(), LostUnknown: c.lostUnknown.Load(),
		New: c.fresh[FromNothing].Load(), Recovered: c.recovered.Load(),
		FreshEpoch: c.fresh[OtherEpoch].Load(), FreshFloor: c.fresh[BelowFloor].Load(), FreshAhead: c.fresh[AboveHead].Load(),
		EndedServer: c.EndedServer.Load(), EndedBehind: c.EndedBehind.Load(), EndedReset: c.EndedReset.Load(),
		Subscriptions: int(c.Subscriptions.Load()), LogBytes: c.LogBytes.Load(),
	}
}

// Freshness says why a subscription starts fresh.
type Freshness int

// The reasons for a fresh start.
const (
	FromNothing Freshness = iota // the client gave no position
	OtherEpoch                   // the position is of another epoch
	BelowFloor                   // publications since the position are no longer kept
	AboveHead                    // the broker does not know the position
)

// FreshnessOf returns why a subscription cannot resume from the position asked, in a channel that is at the position at. If isVoid is set, the broker
// was asked, and does not know the position.
func FreshnessOf(asked *push.Position, at push.Position, isVoid bool) Freshness {
	switch {
	case asked == nil:
		return FromNothing
	case asked.Epoch != at.Epoch:
		return OtherEpoch
	case isVoid, asked.Offset > push.MaxOffset:
		return AboveHead
	default:
		return BelowFloor
	}
}

// CountSubscribe counts the outcome of a request to subscribe. fresh is the reason for a fresh start. joins says that the client has just read the
// rows of the table.
func (c *Counters) CountSubscribe(joins bool, outcome channel.Outcome, fresh Freshness) {
	switch {
	case joins && outcome != channel.Fresh:
		c.fresh[FromNothing].Add(1)
	case joins: // not counted: the client reads the rows again
	case outcome != channel.Fresh:
		c.recovered.Add(1)
	default:
		c.fresh[fresh].Add(1)
	}
}

// CountLost counts publications that a subscription lost; −1 says that their number is not known.
func (c *Counters) CountLost(lost int64) {
	if lost < 0 {
		c.lostUnknown.Add(1)
	} else {
		c.lost.Add(uint64(lost))
	}
}
