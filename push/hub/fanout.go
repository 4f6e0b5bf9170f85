package hub

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push/channel"
)

// # Fan-out
//
// A fan-out batch takes all channels that have something new and serves each of their sessions once: all that a session gets of these channels
// leaves in one write. An append marks its channel dirty; the next batch takes all dirty channels. So nothing waits while a worker is free,
// and what arrives while all workers are busy comes together in the next batch: the answer to overload is fewer and larger writes.
//
// This file has the life of a batch from top to bottom. newFanout scans the channels (scan.go) and groups the subscriptions by session. Workers
// take sessions from the batch in chunks (serve). The sessions of a chunk that get one frame, which they share with others, are written to
// together (sharedWrite). Each of the others is served by itself (Session.serve), with a write of its own (sessionwrite.go).
//
// Several goroutines may serve one batch, and batches may overlap: a session that an earlier batch has not come to yet is not right behind the
// entries of the later one. It reads its log, and has nothing left to get from the earlier batch.

const (
	// chunk is how many sessions a goroutine takes from a batch at a time.
	chunk = 64
	// quantum is how many sessions a worker serves before it looks for other work.
	quantum = 512
	// keptRecipients and keptScans bound the memory of a batch that is kept for another: 16 MiB, and what a thousand channels need.
	keptRecipients = 1 << 20
	keptScans      = 1 << 10
)

// none ends a list of recipients.
const none int32 = -1

// fanout is a fan-out batch. One goroutine makes it; several may serve it.
type fanout struct {
	topics     []*topic // all that were dirty
	scans      []*scan  // of the topics that have something to serve
	recipients []recipient
	// starts holds the first recipient of each session, lasts the last one while the batch is made. Both are empty when there is one scan: then
	// each recipient is a session's first and last.
	starts, lasts []int32
	table         []int32 // while the batch is made: sessions by hash, as index of starts plus one

	taken     atomic.Int64 // how many sessions goroutines have taken; may exceed the number of sessions
	began     time.Time    // when the batch was made, if there is an observer
	delivered atomic.Int64 // deliveries, for the observer
	users     int          // goroutines that serve the batch; guarded by workers.mu
}

// recipient is a subscription that a batch serves.
type recipient struct {
	sub  *Subscription
	scan int32 // index of the channel's scan
	next int32 // index of the session's next recipient, or none
}

var fanoutPool = sync.Pool{New: func() any { return &fanout{} }}

// newFanout makes a batch of dirty topics. Each topic must occur once.
func newFanout(topics []*topic) *fanout {
	f := fanoutPool.Get().(*fanout)
	if topics[0].part.hub.observer != nil {
		f.began = time.Now()
	}
	f.topics = append(f.topics, topics...)
	for _, t := range topics {
		n := len(f.scans)
		if n < cap(f.scans) {
			f.scans = f.scans[:n+1]
		} else {
			f.scans = append(f.scans, nil)
		}
		if f.scans[n] == nil {
			f.scans[n] = &scan{}
		}
		if !f.scans[n].begin(t, f) {
			f.scans[n].end()
			f.scans = f.scans[:n]
		}
	}
	if len(f.scans) > 1 {
		f.group()
	}
	return f
}

// group links the recipients of each session into a list, by an open-addressing hash table of the sessions.
func (f *fanout) group() {
	bits := 4
	for 1<<bits < 2*len(f.recipients) {
		bits++
	}
	if cap(f.table) < 1<<bits {
		f.table = make([]int32, 1<<bits)
	}
	f.table = f.table[:1<<bits]
	clear(f.table)
	for i := range f.recipients {
		s := f.recipients[i].sub.session
		at := s.number * 0x9e3779b1 >> (32 - bits)
		for ; ; at = (at + 1) & (1<<bits - 1) {
			known := f.table[at] - 1
			if known < 0 {
				f.starts, f.lasts = append(f.starts, int32(i)), append(f.lasts, int32(i)) //nolint:gosec // far fewer
				f.table[at] = int32(len(f.starts))                                        //nolint:gosec // as above
				break
			}
			if f.recipients[f.starts[known]].sub.session == s {
				f.recipients[f.lasts[known]].next = int32(i) //nolint:gosec // as above
				f.lasts[known] = int32(i)                    //nolint:gosec // as above
				break
			}
		}
	}
}

// sessions returns how many sessions there are to serve.
func (f *fanout) sessions() int {
	if len(f.scans) > 1 {
		return len(f.starts)
	}
	return len(f.recipients)
}

// left returns how many sessions no goroutine has taken yet.
func (f *fanout) left() int { return max(f.sessions()-int(f.taken.Load()), 0) }

// start returns the first recipient of session i.
func (f *fanout) start(i int) int32 {
	if len(f.scans) > 1 {
		return f.starts[i]
	}
	return int32(i) //nolint:gosec // far fewer
}

// serve serves up to most sessions. Several goroutines may call it at a time.
func (f *fanout) serve(most int, w *sessionWrite) {
	n := f.sessions()
	for served := 0; served < most; served += chunk {
		from := int(f.taken.Add(chunk)) - chunk
		if from >= n {
			break
		}
		f.serveChunk(from, min(from+chunk, n), w)
	}
	if len(f.topics) > 0 {
		f.delivered.Add(int64(w.counts.settle(f.topics[0].part.hub.observer)))
	}
}

// serveChunk serves the sessions from one index up to another: first, together, the sessions that get one shared frame, then the others.
func (f *fanout) serveChunk(from, to int, w *sessionWrite) {
	together := &w.together
	for i := from; i < to; i++ {
		if first := f.start(i); !f.enlist(first, together) {
			together.others = append(together.others, first)
		}
	}
	together.write(&w.counts)
	for _, first := range together.others {
		f.recipients[first].sub.session.serve(f, first, w)
	}
	together.others = together.others[:0]
}

// end releases the batch when no goroutine serves it any more.
func (f *fanout) end() {
	for _, sc := range f.scans {
		sc.end()
	}
	if cap(f.recipients) > keptRecipients || cap(f.scans) > keptScans {
		return
	}
	clear(f.topics)
	clear(f.recipients)
	f.topics, f.scans, f.recipients, f.starts, f.lasts = f.topics[:0], f.scans[:0], f.recipients[:0], f.starts[:0], f.lasts[:0]
	f.taken.Store(0)
	f.delivered.Store(0)
	fanoutPool.Put(f)
}

// # Batched writes
//
// Of thousands of sessions, each is outside the processor's caches when it is served, and after each write so is the code, because the kernel has
// run since. So the sessions that get one shared frame, as most do, are written to together. A goroutine takes the locks of some dozens of
// sessions, offers their carriers the frame with one call, moves the cursors, and releases the locks.
//
// A batched write waits for no lock, and so cannot be part of a deadlock. A goroutine that waits for one of its locks does so for some hundred
// microseconds.

// Offer is a frame that [BatchWriter.TryWriteAll] writes to one carrier.
type Offer struct {
	Carrier Carrier
	Frame   *Frame
	Taken   bool // set by TryWriteAll: whether the carrier took the frame, as if its TryWrite had returned 1
}

// BatchWriter is a [Carrier] to which a frame can be written more cheaply together with other carriers.
type BatchWriter interface {
	// TryWriteAll does what TryWrite of each offer's carrier does with its frame. The receiver is one of the carriers. All carriers are
	// BatchWriters, but may be of different types. The slice is borrowed until TryWriteAll returns. The locks of all their sessions are held.
	TryWriteAll(offers []Offer)
}

// sharedWrite collects the sessions of one batched write. Their locks are held. It is empty between two writes.
type sharedWrite struct {
	shares []sharedShare
	offers []Offer // by share
	others []int32 // the first recipients of sessions that are served by themselves
}

// sharedShare is a subscription's part of a batched write, with its frame.
type sharedShare struct {
	share
	frame *Frame
}

// enlist locks the session of a recipient for a batched write. It reports false if the session is to be served by itself.
func (f *fanout) enlist(first int32, w *sharedWrite) bool {
	r := &f.recipients[first]
	s := r.sub.session
	if r.next != none || !s.mu.TryLock() {
		return false
	}
	ok := !s.closed && !s.blocked && s.paced == nil && f.scans[r.scan].enlist(r.sub, w)
	if !ok {
		s.unlock()
	}
	return ok
}

// enlist adds a subscription to a batched write if it gets all entries of the scan in one shared frame. It reports whether it did.
func (sc *scan) enlist(sub *Subscription, w *sharedWrite) bool {
	if _, ok := sub.session.carrier.(BatchWriter); !ok || !sc.isShared(sub) {
		return false
	}
	e := sc.encoded(sub)
	end, ok := sc.advance(e, &e.all[0], sub.cursor)
	if !ok || len(e.all) > 1 {
		return false
	}
	progress := channel.Progress{Ordinal: sc.entries[len(sc.entries)-1].Ordinal}
	t := sharedShare{share{sub: sub, to: 1, end: end, progress: progress}, &e.all[0].frame}
	w.shares = append(w.shares, t)
	w.offers = append(w.offers, Offer{Carrier: sub.session.carrier, Frame: t.frame})
	return true
}

// write makes the offers, moves the cursors of the subscriptions whose frames were taken, and releases the locks.
func (w *sharedWrite) write(counts *deliveryCounts) {
	if len(w.offers) == 0 {
		return
	}
	w.offers[0].Carrier.(BatchWriter).TryWriteAll(w.offers) //nolint:forcetypeassert // they all are
	for i := range w.shares {
		t := &w.shares[i]
		s := t.sub.session
		if w.offers[i].Taken {
			t.sub.cursor = t.end
			counts.count(&t.share, []Frame{*t.frame}, true)
		}
		if s.blockLocked(!w.offers[i].Taken); s.blocked {
			s.next = slices.Index(s.subs, t.sub)
		}
		s.unlock()
	}
	clear(w.shares)
	clear(w.offers)
	w.shares, w.offers = w.shares[:0], w.offers[:0]
}

// serve writes to a session everything that a batch has for it, from recipient first on, in one write. A subscription that shared frames do not
// serve is left to the session's own flush, which follows.
func (s *Session) serve(f *fanout, first int32, out *sessionWrite) {
	if !s.mu.TryLock() {
		s.dirty.Store(true)
		if !s.mu.TryLock() {
			return // the holder of the lock looks at the bit before and after it releases the lock
		}
	}
	switch {
	case s.closed:
	case s.blocked:
		s.dirty.Store(true)
	default:
		for i := first; i != none; i = f.recipients[i].next {
			r := &f.recipients[i]
			if s.paced != nil && s.paced.isHeld(r.sub, len(f.scans[r.scan].entries)) {
				continue
			}
			before := out.bytes
			if !f.scans[r.scan].serve(r.sub, out) {
				s.dirty.Store(true)
			}
			if s.paced != nil {
				s.paced.consume(r.sub, out.bytes-before)
			}
		}
		s.writeLocked(out)
		s.armLocked()
	}
	s.unlock()
}
