package hub

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/prefetch"
)

// # Rounds
//
// A round is one pass over each of several topics, in which each session is served once: all that it gets of these topics leaves in one
// write. Whoever has something for a topic's subscribers marks the topic as dirty; a round takes all topics that are. So nothing waits
// while there is somebody to serve it, and what arrives while all are busy comes together in the next round: overload is answered by
// fewer and larger writes.
//
// Several goroutines may serve one round, each some of its sessions at a time, and rounds may overlap: a session that an earlier round
// has not come to yet is not right behind the entries of the later one, reads its log, and has nothing left to get from the earlier one.

const (
	// stretch is how many sessions a goroutine takes from a round at a time: a volley.
	stretch = 64
	// stint is how many sessions a worker serves before it looks at what else there is.
	stint     = 512
	far, step = 8, 2 // how many sessions ahead memory is asked for, in steps
	// keptItems and keptPasses bound the memory of a round that is kept for another: 16 MiB, and what a thousand channels need.
	keptItems  = 1 << 20
	keptPasses = 1 << 10
)

// none ends a list of items.
const none int32 = -1

// round is made by one goroutine and may then be served by several.
type round struct {
	topics []*topic // all that were dirty
	passes []*pass  // over those that have something to serve
	items  []item
	// starts holds the first item of each session, last its last while the round is made. Both are empty when there is one pass: then
	// each item is a session's first and last.
	starts, lasts []int32
	table         []int32 // while the round is made: sessions by hash, as index of starts plus one

	taken     atomic.Int64 // of the sessions
	began     time.Time    // when it was made, if that is observed
	delivered atomic.Int64
	users     int // who is at it; guarded by workers.mu
}

// item is what one subscription is to be served with.
type item struct {
	sub  *Subscription
	pass int32
	next int32 // of the same session
}

var roundPool = sync.Pool{New: func() any { return &round{} }}

// makeRound makes a round of topics, each of which occurs once.
func makeRound(topics []*topic) *round {
	r := roundPool.Get().(*round)
	if topics[0].part.hub.observer != nil {
		r.began = time.Now()
	}
	r.topics = append(r.topics, topics...)
	for _, t := range topics {
		n := len(r.passes)
		if n < cap(r.passes) {
			r.passes = r.passes[:n+1]
		} else {
			r.passes = append(r.passes, nil)
		}
		if r.passes[n] == nil {
			r.passes[n] = &pass{}
		}
		if !r.passes[n].begin(t, r) {
			r.passes[n].end()
			r.passes = r.passes[:n]
		}
	}
	if len(r.passes) > 1 {
		r.group()
	}
	return r
}

// group links the items of each session.
func (r *round) group() {
	bits := 4
	for 1<<bits < 2*len(r.items) {
		bits++
	}
	if cap(r.table) < 1<<bits {
		r.table = make([]int32, 1<<bits)
	}
	r.table = r.table[:1<<bits]
	clear(r.table)
	for i := range r.items {
		s := r.items[i].sub.session
		at := s.number * 0x9e3779b1 >> (32 - bits)
		for ; ; at = (at + 1) & (1<<bits - 1) {
			known := r.table[at] - 1
			if known < 0 {
				r.starts, r.lasts = append(r.starts, int32(i)), append(r.lasts, int32(i)) //nolint:gosec // far fewer
				r.table[at] = int32(len(r.starts))                                        //nolint:gosec // as above
				break
			}
			if r.items[r.starts[known]].sub.session == s {
				r.items[r.lasts[known]].next = int32(i) //nolint:gosec // as above
				r.lasts[known] = int32(i)               //nolint:gosec // as above
				break
			}
		}
	}
}

// sessions returns how many sessions there are to serve.
func (r *round) sessions() int {
	if len(r.passes) > 1 {
		return len(r.starts)
	}
	return len(r.items)
}

// left returns how many nobody has taken yet.
func (r *round) left() int { return max(r.sessions()-int(r.taken.Load()), 0) }

// expect asks for the memory of session i, and of those that are served a little sooner. Each of thousands is cold when its turn comes, and
// what a pointer leads to can be asked for only when the pointer is there.
func (r *round) expect(i int) {
	if i >= r.sessions() {
		return
	}
	prefetch.Value(r.first(i))
	prefetch.Value(r.first(i - step).session)
	prefetch.Value(r.first(i - 2*step).session.carrier)
}

// start returns the first item of session i, first the subscription in it.
func (r *round) start(i int) int32 {
	if len(r.passes) > 1 {
		return r.starts[i]
	}
	return int32(i) //nolint:gosec // far fewer
}

func (r *round) first(i int) *Subscription { return r.items[r.start(i)].sub }

// serve serves up to most sessions, in turn with others who do the same.
func (r *round) serve(most int, b *batch) {
	n := r.sessions()
	for served := 0; served < most; served += stretch {
		from := int(r.taken.Add(stretch)) - stretch
		if from >= n {
			break
		}
		r.serveStretch(from, min(from+stretch, n), b)
	}
	if len(r.topics) > 0 {
		r.delivered.Add(int64(b.counts.settle(r.topics[0].part.hub.observer)))
	}
}

// end gives the round up: nobody is at it any more.
func (r *round) end() {
	for _, p := range r.passes {
		p.end()
	}
	if cap(r.items) > keptItems || cap(r.passes) > keptPasses {
		return
	}
	clear(r.topics)
	clear(r.items)
	r.topics, r.passes, r.items, r.starts, r.lasts = r.topics[:0], r.passes[:0], r.items[:0], r.starts[:0], r.lasts[:0]
	r.taken.Store(0)
	r.delivered.Store(0)
	roundPool.Put(r)
}
