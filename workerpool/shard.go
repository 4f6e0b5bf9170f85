package workerpool

// The strands of one shard: how tasks get into them, and out.

// fullLocked reports whether there is no room for another task of s, which may be nil.
func (sh *shard) fullLocked(s *strand) bool {
	return sh.queued >= sh.bound || s != nil && s.tasks.n >= sh.of.o.Queue
}

// strandLocked returns the strand of a key, perhaps a new one.
func (sh *shard) strandLocked(key uint64) *strand {
	s := sh.strands[key]
	if s != nil {
		return s
	}
	if s = sh.free; s != nil {
		sh.free, s.next = s.next, nil
		sh.kept--
	} else {
		s = &strand{shard: sh}
		s.run = s.turn
	}
	s.key = key
	sh.strands[key] = s
	sh.most = max(sh.most, len(sh.strands))
	return s
}

// addLocked accepts a task, and returns the worker to call when the lock is released.
func (sh *shard) addLocked(s *strand, task func()) *worker {
	s.tasks.push(task)
	sh.queued++
	sh.submitted++
	if s.ready {
		return nil
	}
	s.ready = true
	return sh.of.pool.resume(s.run)
}

// submit is Submit.
func (sh *shard) submit(key uint64, task func()) error {
	sh.mu.Lock()
	if sh.closed {
		sh.refused++
		sh.mu.Unlock()
		return ErrClosed
	}
	s := sh.strands[key]
	if sh.fullLocked(s) {
		return sh.overflow(key, task)
	}
	if s == nil {
		s = sh.strandLocked(key)
	}
	called := sh.addLocked(s, task)
	sh.mu.Unlock()
	called.call()
	return nil
}

// overflow is what submit does when there is no room. It releases mu.
func (sh *shard) overflow(key uint64, task func()) error {
	switch s := sh.strands[key]; {
	case sh.of.o.Policy == DropOldest && s != nil && s.tasks.n > 0:
		s.tasks.pop()
		s.tasks.push(task) // it is ready, since it had a task
		sh.dropped++
		sh.submitted++
		sh.mu.Unlock()
		return nil
	case sh.of.o.Policy == Wait:
		s = sh.strandLocked(key)
		s.waiting++
		w := sh.line.join(task, s)
		sh.mu.Unlock()
		return sh.await(w, s)
	}
	sh.refused++
	sh.mu.Unlock()
	return ErrFull
}

// await waits until w is told its outcome, or gives up.
func (sh *shard) await(w *waiter, s *strand) error {
	err, told := w.await(sh.of.o.WaitTimeout)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !told {
		if w.in {
			sh.turnAwayLocked(w, ErrFull)
		}
		err = <-w.result // ours, or one that came at the last moment
	}
	if err != nil {
		sh.refused++
	}
	sh.line.recycle(w)
	return err
}

// turnAwayLocked tells w that it waits in vain.
func (sh *shard) turnAwayLocked(w *waiter, err error) {
	s := w.strand
	s.waiting--
	sh.line.leave(w, err)
	sh.forgetLocked(s)
}

// letInLocked moves tasks of those who wait into their strands, where there is room, in the order of the line. It returns the worker to
// call. It is called whenever there is more room, before mu is released, so that nobody who waits is overtaken.
func (sh *shard) letInLocked() *worker {
	var called *worker
	for w := sh.line.first; w != nil && sh.queued < sh.bound; {
		next, s := w.next, w.strand
		if s.tasks.n < sh.of.o.Queue {
			s.waiting--
			if c := sh.addLocked(s, w.task); c != nil {
				called = c
			}
			sh.line.leave(w, nil)
		}
		w = next
	}
	return called
}

// forgetLocked lets go of a strand that has nothing to do.
func (sh *shard) forgetLocked(s *strand) {
	if s.ready || s.waiting > 0 || s.tasks.n > 0 {
		return
	}
	if sh.strands[s.key] == s {
		delete(sh.strands, s.key)
	}
	if len(sh.strands) == 0 && sh.most > keptStrands { // maps keep what they have grown to
		sh.strands, sh.most = make(map[uint64]*strand), 0
	}
	if sh.kept < keptStrands && len(s.tasks.places) <= keptPlaces {
		s.next = sh.free
		sh.free = s
		sh.kept++
	}
}

// turn runs tasks of a strand, on a worker of the pool. A task that panics or ends its goroutine ends the turn, and what is left is for
// the next one.
func (s *strand) turn() {
	defer s.yield()
	left := s.shard.of.o.Burst
	for task := s.fetch(left); task != nil; {
		task()
		if left--; left == 0 {
			return
		}
		if task = s.hand.take(); task == nil {
			task = s.fetch(left)
		}
	}
}

// fetch takes the next task, and up to left−1 more in hand: no other key is held up by that, and those of this key have to wait anyway.
// Under DropOldest there is only one, so that the oldest can be dropped.
func (s *strand) fetch(left int) func() {
	sh := s.shard
	sh.mu.Lock()
	task := s.hand.take() // what a turn before has left, that ended early
	if task == nil && s.tasks.n == 0 {
		sh.mu.Unlock()
		return nil
	}
	if !s.running {
		s.running = true
		sh.running++
	}
	if task != nil {
		sh.mu.Unlock()
		return task
	}
	task = s.tasks.pop()
	n := 0
	if sh.of.o.Policy != DropOldest {
		// Not more than a quarter of the queue, or its bound would mean nothing.
		if n = min(left-1, s.tasks.n, batchSize, sh.of.o.Queue/4); n > 0 {
			s.hand.fill(&s.tasks, n)
		}
	}
	sh.queued -= n + 1
	called := sh.letInLocked()
	sh.mu.Unlock()
	called.call()
	return task
}

// yield ends a turn: the strand goes to the end of the pool's queue if it has more to do.
func (s *strand) yield() {
	sh := s.shard
	sh.mu.Lock()
	if s.running {
		s.running = false
		sh.running--
	}
	var called *worker
	if s.tasks.n > 0 || s.hand.left() > 0 {
		called = sh.of.pool.resume(s.run)
	} else {
		s.ready = false
		sh.forgetLocked(s)
	}
	sh.mu.Unlock()
	called.call()
}

// stop is described at part; the pool is stopped afterwards.
func (sh *shard) stop(drop bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	for sh.line.first != nil {
		sh.turnAwayLocked(sh.line.first, ErrClosed)
	}
	if !drop {
		return
	}
	for _, s := range sh.strands {
		n := s.tasks.clear() + s.hand.rob(batchSize, nil)
		sh.dropped += uint64(n)
	}
	sh.queued = 0
	clear(sh.strands) // those that run do without
}
