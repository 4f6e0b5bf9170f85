package delivery

import (
	"slices"
	"sort"
)

// Set records for each stream of each client which publications have come and which have not. A stream is the sequence of publications that one
// writer made in one channel, numbered from 1. A Set is not safe for concurrent use.
//
// A stream takes 16 bytes as long as its publications come in order. A map holds ranges of missing ones, which tell late deliveries from duplicates.
type Set struct {
	streams  []streamState
	gaps     map[int32][]gap // by index in streams, in ascending order
	gapsLeft int             // how many more ranges fit
	lost     Missed          // publications in ranges that did not fit

	open uint64 // publications missing before later ones, of which the server has announced nothing
}

// streamState is the state of one stream of one client.
type streamState struct {
	last      uint32 // the highest sequence number that has come
	announced bool   // the server has announced a possible loss before the next publication
	offset    uint64 // in the first stream of a channel: the server's offset of the channel's last publication; 0 if it gives none
}

// gap is a range of publications that are missing although later ones have come.
type gap struct {
	from, to  uint32 // inclusive
	announced bool   // the server has announced the loss
}

// Missed counts publications that did not come. Announced counts those whose loss the server has announced, and Lost the others.
type Missed struct{ Lost, Announced uint64 }

// maxGaps bounds the ranges of a Set. Beyond it, missing publications are only counted, and a late delivery of one counts as a duplicate.
const maxGaps = 1 << 20

// NewSet returns a Set for so many streams, numbered from 0, to which nothing has come.
func NewSet(streams int) *Set {
	return &Set{streams: make([]streamState, streams), gaps: map[int32][]gap{}, gapsLeft: maxGaps}
}

// Arrival classifies a delivery.
type Arrival uint8

// The classes.
const (
	First      Arrival = iota // it had not come yet, nor had a later one
	Disordered                // it had not come yet, but a later one had; or its offset is not above the last one
	Duplicated                // it has come before
)

// Receive records a delivery and classifies it. It is publication seq of stream base+index, where base is the first stream of the channel, and
// has the server's offset, or 0 for none.
func (r *Set) Receive(base, index int, seq uint32, offset uint64) Arrival {
	at := base + index
	e := &r.streams[at]
	if seq <= e.last {
		if r.fillGap(int32(at), seq) { //nolint:gosec // there are far fewer entries
			return Disordered
		}
		return Duplicated
	}
	if seq > e.last+1 {
		r.addGap(int32(at), gap{e.last + 1, seq - 1, e.announced}) //nolint:gosec // as above
	}
	e.last, e.announced = seq, false
	if offset == 0 {
		return First
	}
	head := &r.streams[base].offset
	back := offset <= *head
	*head = offset
	if back {
		return Disordered // by the server's offset, which does not follow the last one
	}
	return First
}

// AnnounceLoss records that the server has announced a loss in a channel: before the next publication of each of its streams, some may be missing.
func (r *Set) AnnounceLoss(base, perChannel int) {
	for i := range perChannel {
		r.streams[base+i].announced = true
	}
	r.streams[base].offset = 0 // the log of the channel may be a new one, whose offsets begin again
}

func (r *Set) addGap(at int32, g gap) {
	n := uint64(g.to-g.from) + 1
	if !g.announced {
		r.open += n
	}
	if r.gapsLeft <= 0 {
		r.lost.Add(n, g.announced)
		return
	}
	r.gapsLeft--
	r.gaps[at] = append(r.gaps[at], g)
}

// fillGap removes a publication from the gaps of a stream and reports whether it was in one.
func (r *Set) fillGap(at int32, seq uint32) bool {
	gaps := r.gaps[at]
	i := sort.Search(len(gaps), func(i int) bool { return gaps[i].to >= seq })
	if i == len(gaps) || gaps[i].from > seq {
		return false
	}
	g := gaps[i]
	if !g.announced {
		r.open--
	}
	switch {
	case g.from == g.to:
		gaps = slices.Delete(gaps, i, i+1)
		r.gapsLeft++
	case seq == g.from:
		gaps[i].from++
	case seq == g.to:
		gaps[i].to--
	default:
		gaps = slices.Insert(gaps, i+1, gap{seq + 1, g.to, g.announced})
		gaps[i].to = seq - 1
		r.gapsLeft-- // may become negative: splits make at most one range for every second missing publication
	}
	if len(gaps) == 0 {
		delete(r.gaps, at)
		return true
	}
	r.gaps[at] = gaps
	return true
}

// Open returns how many publications are missing before later ones, of which the server has announced nothing.
func (r *Set) Open() uint64 { return r.open }

// Uncounted returns how many publications are missing that Missing does not count, because the Set could not note which ones they are.
func (r *Set) Uncounted() Missed { return r.lost }

// Published says which publications of a stream were published.
type Published struct {
	From  uint32   // the first one that counts; those before it belong to the warm-up
	Last  uint32   // the last one; 0 if there is none
	Holes []uint32 // publications without an answer, which may or may not have been published; ascending
	Sure  uint32   // the last one that the server has accepted; 0 if there is none
	Due   int64    // host clock; when Sure was due
}

// Known returns how many of the publications from through to the server has accepted.
func (p *Published) Known(from, to uint32) uint64 {
	if from > to {
		return 0
	}
	a := sort.Search(len(p.Holes), func(i int) bool { return p.Holes[i] >= from })
	b := sort.Search(len(p.Holes), func(i int) bool { return p.Holes[i] > to })
	return uint64(to-from) + 1 - uint64(b-a) //nolint:gosec // the holes are distinct
}

// Missing counts the publications of a stream that have not come. If ended is set, the server has announced that no more would come.
// announcedAt is the time of the last announced loss. The announcement does not cover publications that were due later: if Sure is one of them
// and has not come, it counts as Lost.
func (r *Set) Missing(at int, p *Published, ended bool, announcedAt int64) (n Missed) {
	for _, g := range r.gaps[int32(at)] { //nolint:gosec // there are far fewer entries
		n.Add(p.Known(g.from, min(g.to, p.Last)), g.announced)
	}
	e := &r.streams[at]
	tail := p.Known(e.last+1, p.Last)
	if e.announced && !ended && p.Sure > e.last && p.Due > announcedAt {
		n.Lost++
		tail--
	}
	n.Add(tail, ended || e.announced)
	return n
}

// Add adds n publications.
func (c *Missed) Add(n uint64, announced bool) {
	if announced {
		c.Announced += n
	} else {
		c.Lost += n
	}
}
