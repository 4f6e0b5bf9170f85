package hub

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/channel"
)

// serialSubscribers is up to how many subscriptions are served by the goroutine that appended, which costs no hand-over.
const serialSubscribers = 64

// large is the number of sessions left in a round, some dozens of milliseconds' work, from which on other topics do not wait for it.
const large = 8192

// workers serve topics, in rounds, and sessions that were left dirty. Each is in its queue at most once, which bounds these.
type workers struct {
	mu     sync.Mutex
	more   sync.Cond
	dirty  []*topic   // for the next round
	spare  []*topic   // memory of dirty
	rounds []*round   // with sessions that nobody has taken yet
	left   []*Session // that are not done
	making bool       // a worker makes a round
	closed bool
	wg     sync.WaitGroup
}

// fanout is what the workers know of a topic. Their lock guards it.
type fanout struct {
	isDirty bool
	rounds  int32 // that serve it
}

func (f *fanout) isIdle() bool { return !f.isDirty && f.rounds == 0 }

func newWorkers(n int) *workers {
	w := &workers{}
	w.more.L = &w.mu
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// kick has topics served that together have about so many subscribers: by the caller before it returns, if they are few and nobody
// is at any of the topics, otherwise by the workers.
func (w *workers) kick(topics []*topic, subscribers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(topics) == 0 {
		return
	}
	if subscribers <= serialSubscribers && !slices.ContainsFunc(topics, func(t *topic) bool { return !t.fanout.isIdle() }) {
		s := scratches.Get().(*scratch)
		defer s.release()
		r := w.makeLocked(topics)
		w.serveLocked(r, r.sessions(), s)
		return
	}
	for _, t := range topics {
		if !t.fanout.isDirty {
			t.fanout.isDirty = true
			w.dirty = append(w.dirty, t)
		}
	}
	w.more.Signal()
}

// later has a worker go on with a session.
func (w *workers) later(s *Session) {
	if s.queued.Swap(true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.left = append(w.left, s)
		w.more.Signal()
	}
}

func (w *workers) run() {
	s := scratches.Get().(*scratch)
	defer s.release()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for !w.dueLocked() && !w.closed {
			w.more.Wait()
		}
		if w.closed {
			return
		}
		w.turnLocked(s)
	}
}

// dueLocked reports whether there is something that a worker can do.
func (w *workers) dueLocked() bool {
	return len(w.left) > 0 || len(w.rounds) > 0 || len(w.dirty) > 0 && !w.making
}

// nextLocked takes the topics of a new round from those that are dirty, none when there is not to be one. Rounds are made one after the
// other, when the sessions of the one before are all taken: so what comes meanwhile is gathered, and of two rounds over the same topics the
// newer does not find subscribers that are not right behind its entries yet. But where what is left takes long, topics that no
// round serves have one beside it, so that a channel with very many subscribers does not hold up the others.
func (w *workers) nextLocked() []*topic {
	if len(w.dirty) == 0 || w.making || slices.ContainsFunc(w.rounds, func(r *round) bool { return r.left() <= large }) {
		return nil
	}
	taken, rest := w.spare[:0], w.dirty[:0]
	for _, t := range w.dirty {
		if len(w.rounds) == 0 || t.fanout.rounds == 0 {
			taken = append(taken, t)
		} else {
			rest = append(rest, t)
		}
	}
	clear(w.dirty[len(rest):])
	w.dirty, w.spare = rest, taken[:0]
	return taken
}

// turnLocked goes on with one session and serves a part of a round, as far as there are any.
func (w *workers) turnLocked(s *scratch) {
	if len(w.left) > 0 {
		session := w.left[0]
		w.left[0] = nil
		w.left = w.left[1:]
		w.mu.Unlock()
		session.goOn()
		w.mu.Lock()
	}
	if topics := w.nextLocked(); len(topics) > 0 {
		w.spare, w.making = nil, true
		r := w.makeLocked(topics)
		clear(topics)
		w.spare, w.making = topics[:0], false
		if r.left() > stretch {
			w.rounds = append(w.rounds, r) // others help
		}
		w.joinLocked(r, s)
	} else if len(w.rounds) > 0 {
		r := w.rounds[0]
		copy(w.rounds, w.rounds[1:]) // in turn
		w.rounds[len(w.rounds)-1] = r
		w.joinLocked(r, s)
	}
}

// joinLocked serves a part of a round. As long as there is more in it than one serves in a moment another worker is woken.
func (w *workers) joinLocked(r *round, s *scratch) {
	if r.left() > 2*stretch || len(w.left) > 0 {
		w.more.Signal()
	}
	w.serveLocked(r, stint, s)
}

// makeLocked makes a round, without the lock meanwhile.
func (w *workers) makeLocked(topics []*topic) *round {
	for _, t := range topics {
		t.fanout.isDirty = false
		t.fanout.rounds++
	}
	w.mu.Unlock()
	r := makeRound(topics)
	w.mu.Lock()
	return r
}

// serveLocked serves up to most sessions of a round, without the lock meanwhile. The last one to leave ends the round.
func (w *workers) serveLocked(r *round, most int, s *scratch) {
	r.users++
	w.mu.Unlock()
	r.serve(most, &s.batch)
	w.mu.Lock()
	r.users--
	if r.left() > 0 {
		return
	}
	if i := slices.Index(w.rounds, r); i >= 0 {
		w.rounds = slices.Delete(w.rounds, i, i+1)
		if len(w.dirty) > 0 {
			w.more.Signal()
		}
	}
	if r.users == 0 {
		for _, t := range r.topics {
			t.fanout.rounds--
		}
		w.mu.Unlock() // nobody else knows of it any more
		o, began, n := r.topics[0].part.hub.observer, r.began, int(r.delivered.Load())
		r.end()
		if o != nil && o.Passed != nil && n > 0 {
			o.Passed(time.Since(began), n)
		}
		w.mu.Lock()
	}
}

// waiting returns how many topics, rounds and sessions wait for a worker.
func (w *workers) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirty) + len(w.rounds) + len(w.left)
}

func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.more.Broadcast()
	w.mu.Unlock()
	w.wg.Wait()
}

// scratch is a goroutine's own memory, reused from one service to the next.
type scratch struct {
	batch      batch
	deliveries []channel.Delivery
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

func (s *scratch) release() {
	s.batch.clear()
	clear(s.deliveries)
	s.deliveries = s.deliveries[:0]
	scratches.Put(s)
}
