package hub

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/channel"
)

// serialSubscribers is how many subscriptions the goroutine that appended serves by itself, which saves a hand-over. The workers serve more.
const serialSubscribers = 64

// manySessions is a number of sessions that means some dozens of milliseconds of work. If a batch has more left, other topics do not wait for it.
const manySessions = 8192

// workers are goroutines that serve topics, in fan-out batches, and sessions that were left dirty. A topic or session is queued at most once, which
// bounds the queues.
type workers struct {
	mu      sync.Mutex
	more    sync.Cond
	dirty   []*topic   // for the next batch
	spare   []*topic   // memory of dirty
	batches []*fanout  // with sessions that no worker has taken yet
	left    []*Session // dirty sessions that a worker has to flush
	making  bool       // a worker makes a batch
	closed  bool
	wg      sync.WaitGroup
}

// fanoutState is a topic's state in fan-out. workers.mu guards it.
type fanoutState struct {
	isDirty bool  // in workers.dirty
	batches int32 // number of batches that serve the topic
}

func (f *fanoutState) isIdle() bool { return !f.isDirty && f.batches == 0 }

func newWorkers(n int) *workers {
	w := &workers{}
	w.more.L = &w.mu
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// serve has topics served. subscribers is about the number of their subscribers together. If they are few and no goroutine serves any of the
// topics, the caller serves them before serve returns. Otherwise the workers do.
func (w *workers) serve(topics []*topic, subscribers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(topics) == 0 {
		return
	}
	if subscribers <= serialSubscribers && !slices.ContainsFunc(topics, func(t *topic) bool { return !t.fanout.isIdle() }) {
		s := scratches.Get().(*scratch)
		defer s.release()
		f := w.makeLocked(topics)
		w.serveLocked(f, f.sessions(), s)
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

// resume queues a dirty session for the workers.
func (w *workers) resume(s *Session) {
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
		w.workLocked(s)
	}
}

// dueLocked reports whether there may be work for a worker.
func (w *workers) dueLocked() bool {
	return len(w.left) > 0 || len(w.batches) > 0 || len(w.dirty) > 0 && !w.making
}

// nextLocked takes the topics of a new batch from the dirty topics. It returns none if no batch is to be made now.
//
// A new batch is made when goroutines have taken all sessions of the batch before. So publications that arrive meanwhile are collected, and the
// newer batch finds the cursors right before its entries. While a batch with very many sessions is served, topics that no batch serves get a
// batch beside it, so that a channel with very many subscribers does not hold up the others.
func (w *workers) nextLocked() []*topic {
	if len(w.dirty) == 0 || w.making || slices.ContainsFunc(w.batches, func(f *fanout) bool { return f.left() <= manySessions }) {
		return nil
	}
	taken, rest := w.spare[:0], w.dirty[:0]
	for _, t := range w.dirty {
		if len(w.batches) == 0 || t.fanout.batches == 0 {
			taken = append(taken, t)
		} else {
			rest = append(rest, t)
		}
	}
	clear(w.dirty[len(rest):])
	w.dirty, w.spare = rest, taken[:0]
	return taken
}

// workLocked flushes one queued session, and serves a part of a batch, as far as there are any. It releases the lock meanwhile.
func (w *workers) workLocked(s *scratch) {
	if len(w.left) > 0 {
		session := w.left[0]
		w.left[0] = nil
		w.left = w.left[1:]
		w.mu.Unlock()
		session.resume()
		w.mu.Lock()
	}
	if topics := w.nextLocked(); len(topics) > 0 {
		w.spare, w.making = nil, true
		f := w.makeLocked(topics)
		clear(topics)
		w.spare, w.making = topics[:0], false
		if f.left() > chunk {
			w.batches = append(w.batches, f) // other workers help
		}
		w.serveQuantumLocked(f, s)
	} else if len(w.batches) > 0 {
		f := w.batches[0]
		copy(w.batches, w.batches[1:]) // round-robin
		w.batches[len(w.batches)-1] = f
		w.serveQuantumLocked(f, s)
	}
}

// serveQuantumLocked serves a quantum of a batch. If there is enough work for another worker, it wakes one.
func (w *workers) serveQuantumLocked(f *fanout, s *scratch) {
	if f.left() > 2*chunk || len(w.left) > 0 {
		w.more.Signal()
	}
	w.serveLocked(f, quantum, s)
}

// makeLocked makes a batch. It releases the lock meanwhile.
func (w *workers) makeLocked(topics []*topic) *fanout {
	for _, t := range topics {
		t.fanout.isDirty = false
		t.fanout.batches++
	}
	w.mu.Unlock()
	f := newFanout(topics)
	w.mu.Lock()
	return f
}

// serveLocked serves up to most sessions of a batch. It releases the lock meanwhile. The last goroutine to leave ends the batch.
func (w *workers) serveLocked(f *fanout, most int, s *scratch) {
	f.users++
	w.mu.Unlock()
	f.serve(most, &s.write)
	w.mu.Lock()
	f.users--
	if f.left() > 0 {
		return
	}
	if i := slices.Index(w.batches, f); i >= 0 {
		w.batches = slices.Delete(w.batches, i, i+1)
		if len(w.dirty) > 0 {
			w.more.Signal()
		}
	}
	if f.users == 0 {
		for _, t := range f.topics {
			t.fanout.batches--
		}
		w.mu.Unlock() // no other goroutine has it any more
		o, began, n := f.topics[0].part.hub.observer, f.began, int(f.delivered.Load())
		f.end()
		if o != nil && o.BatchDone != nil && n > 0 {
			o.BatchDone(time.Since(began), n)
		}
		w.mu.Lock()
	}
}

// waiting returns how many topics, batches and sessions wait for a worker.
func (w *workers) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirty) + len(w.batches) + len(w.left)
}

func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.more.Broadcast()
	w.mu.Unlock()
	w.wg.Wait()
}

// scratch is the reusable memory with which one goroutine serves sessions.
type scratch struct {
	write      sessionWrite
	deliveries []channel.Delivery
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

func (s *scratch) release() {
	s.write.clear()
	clear(s.deliveries)
	s.deliveries = s.deliveries[:0]
	scratches.Put(s)
}
