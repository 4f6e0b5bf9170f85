package load

import (
	"slices"
	"sort"
)

// ledger knows of each stream of each client what has come and what has not. A stream is one sequence of publications: those of a channel
// that one writer published one after the other, numbered from 1. It is a plain value for one goroutine at a time.
//
// An entry costs 16 bytes as long as all comes in order. What is missing in between is kept apart, as ranges, so that what comes late is
// told from what comes twice, exactly.
type ledger struct {
	entries []entry
	gaps    map[int32][]gap // by entry, in their order
	room    int             // for how many more ranges there is room
	lost    lostCount       // what did not fit

	open uint64 // how many publications are in gaps that nobody has told of
}

// entry is what is known of one stream of one client.
type entry struct {
	last   uint32 // the highest number that has come
	told   bool   // the server has said that something may be missing before the next one
	offset uint64 // the server's, of the last in the channel, in its first stream; 0 when it gives none
}

// gap is a range of publications that have not come though later ones have.
type gap struct {
	from, to uint32 // both are missing
	told     bool
}

// lostCount is how many publications are missing: those of which the server has said so, and those of which it has not.
type lostCount struct{ Lost, Told uint64 }

// maxGaps bounds the ranges of a ledger. Beyond it what is missing is counted, but what comes late passes for what comes twice.
const maxGaps = 1 << 20

func newLedger(entries int) *ledger {
	return &ledger{entries: make([]entry, entries), gaps: map[int32][]gap{}, room: maxGaps}
}

// arrival is what a delivery was.
type arrival uint8

const (
	first      arrival = iota // it had not come yet, and it is its turn or something is missing before it
	disordered                // it had not come yet, and later ones have
	duplicated                // it has come before
)

// note enters a delivery in a stream: number seq in lane of the channel whose streams begin at base, with the server's offset.
func (l *ledger) note(base, lane int, seq uint32, offset uint64) arrival {
	at := base + lane
	e := &l.entries[at]
	if seq <= e.last {
		if l.fill(int32(at), seq) { //nolint:gosec // there are far fewer entries
			return disordered
		}
		return duplicated
	}
	if seq > e.last+1 {
		l.miss(int32(at), gap{e.last + 1, seq - 1, e.told}) //nolint:gosec // as above
	}
	e.last, e.told = seq, false
	if offset == 0 {
		return first
	}
	head := &l.entries[base].offset
	back := offset <= *head
	*head = offset
	if back {
		return disordered // the server's own numbers say so
	}
	return first
}

// excuse says that the server has told that what is missing before the next publications of a channel was left out.
func (l *ledger) excuse(base, lanes int) {
	for i := range lanes {
		l.entries[base+i].told = true
	}
	l.entries[base].offset = 0 // the channel may live another life now
}

func (l *ledger) miss(at int32, g gap) {
	n := uint64(g.to-g.from) + 1
	if !g.told {
		l.open += n
	}
	if l.room <= 0 {
		l.lost.add(n, g.told)
		return
	}
	l.room--
	l.gaps[at] = append(l.gaps[at], g)
}

// fill takes a publication out of the gaps and reports whether it was there.
func (l *ledger) fill(at int32, seq uint32) bool {
	gaps := l.gaps[at]
	i := sort.Search(len(gaps), func(i int) bool { return gaps[i].to >= seq })
	if i == len(gaps) || gaps[i].from > seq {
		return false
	}
	g := gaps[i]
	if !g.told {
		l.open--
	}
	switch {
	case g.from == g.to:
		gaps = slices.Delete(gaps, i, i+1)
		l.room++
	case seq == g.from:
		gaps[i].from++
	case seq == g.to:
		gaps[i].to--
	default:
		gaps = slices.Insert(gaps, i+1, gap{seq + 1, g.to, g.told})
		gaps[i].to = seq - 1
		l.room-- // perhaps below zero: there is room for every other one of what was missed
	}
	if len(gaps) == 0 {
		delete(l.gaps, at)
		return true
	}
	l.gaps[at] = gaps
	return true
}

// course is what was published in a stream.
type course struct {
	From  uint32   // the first that counts; what is before was warming up
	Last  uint32   // the last, 0 when there was none
	Holes []uint32 // of which nobody knows whether they were published, in their order
	Sure  uint32   // the last that was published for sure, 0 when there was none
	Due   int64    // when that was due, by clock
}

// known returns how many between from and to were published for sure, both included.
func (c *course) known(from, to uint32) uint64 {
	if from > to {
		return 0
	}
	a := sort.Search(len(c.Holes), func(i int) bool { return c.Holes[i] >= from })
	b := sort.Search(len(c.Holes), func(i int) bool { return c.Holes[i] > to })
	return uint64(to-from) + 1 - uint64(b-a) //nolint:gosec // holes are different
}

// missing counts what has not come of a stream. With ended the server has told that nothing more would come. What it has told of at a time
// excuses nothing that was due after: of that at least the last one is lost when it has not come.
func (l *ledger) missing(at int, c *course, ended bool, toldAt int64) (n lostCount) {
	for _, g := range l.gaps[int32(at)] { //nolint:gosec // there are far fewer entries
		n.add(c.known(g.from, min(g.to, c.Last)), g.told)
	}
	e := &l.entries[at]
	tail := c.known(e.last+1, c.Last)
	if e.told && !ended && c.Sure > e.last && c.Due > toldAt {
		n.Lost++
		tail--
	}
	n.add(tail, ended || e.told)
	return n
}

func (c *lostCount) add(n uint64, told bool) {
	if told {
		c.Told += n
	} else {
		c.Lost += n
	}
}
