package workerpool

// This file has the way of tasks into the strands of a shard, and out of them.

// fullLocked reports whether there is no room for another task of s, which may be nil.
func (sh *shard) fullLocked(s *strand) bool {
	return sh.queued >= sh.bound || s != nil && s.tasks.n >= sh.of.o.Queue
}

// strandLocked returns the strand of a key. If there is none, it makes one.
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
		s.run = s.runBurst
	}
	s.key = key
	sh.strands[key] = s
	sh.most = max(sh.most, len(sh.strands))
	return s
}

// addLocked accepts a task. It returns the worker to call after the lock has been released, or nil.
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

// submit implements Submit.
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

// overflow handles a task that finds no room, by the policy. It releases mu.
func (sh *shard) overflow(key uint64, task func()) error {
	switch s := sh.strands[key]; {
	case sh.of.o.Policy == DropOldest && s != nil && s.tasks.n > 0:
		s.tasks.pop()
		s.tasks.push(task) // s is ready, since it had a task
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

// await waits until w gets its result, or gives up after WaitTimeout.
func (sh *shard) await(w *waiter, s *strand) error {
	err, told := w.await(sh.of.o.WaitTimeout)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !told {
		if w.in {
			sh.rejectLocked(w, ErrFull)
		}
		err = <-w.result // ErrFull from rejectLocked, or a result that came at the last moment
	}
	if err != nil {
		sh.refused++
	}
	sh.line.recycle(w)
	return err
}

// rejectLocked ends the wait of w with err.
func (sh *shard) rejectLocked(w *waiter, err error) {
	s := w.strand
	s.waiting--
	sh.line.leave(w, err)
	sh.forgetLocked(s)
}

// admitLocked moves tasks of waiting submitters into their strands, where there is room, in the order of arrival. It returns the worker to call,
// or nil. It is called whenever room was made, before mu is released, so that no waiting submitter is overtaken.
func (sh *shard) admitLocked() *worker {
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

// forgetLocked removes a strand from the map if it has no tasks, no waiting submitters and no worker.
func (sh *shard) forgetLocked(s *strand) {
	if s.ready || s.waiting > 0 || s.tasks.n > 0 {
		return
	}
	if sh.strands[s.key] == s {
		delete(sh.strands, s.key)
	}
	if len(sh.strands) == 0 && sh.most > keptStrands { // a map never shrinks, so it is replaced
		sh.strands, sh.most = make(map[uint64]*strand), 0
	}
	if sh.kept < keptStrands && len(s.tasks.places) <= keptPlaces {
		s.next = sh.free
		sh.free = s
		sh.kept++
	}
}

// runBurst runs up to Options.Burst tasks of a strand, on a worker of the pool. If a task panics or ends its goroutine, the burst ends, and the
// next burst runs the rest.
func (s *strand) runBurst() {
	defer s.yield()
	left := s.shard.of.o.Burst
	for task := s.fetch(left); task != nil; {
		task()
		if left--; left == 0 {
			return
		}
		if task = s.local.take(); task == nil {
			task = s.fetch(left)
		}
	}
}

// fetch takes the next task, and up to left−1 more into the local queue. That holds up no other key, and the tasks of this key have to wait
// anyway. Under DropOldest it takes only one, so that the oldest can be dropped.
func (s *strand) fetch(left int) func() {
	sh := s.shard
	sh.mu.Lock()
	task := s.local.take() // the rest of an earlier burst that a panic ended
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
		// At most a quarter of the queue's bound: tasks in the local queue no longer count towards that bound.
		if n = min(left-1, s.tasks.n, batchSize, sh.of.o.Queue/4); n > 0 {
			s.local.fill(&s.tasks, n)
		}
	}
	sh.queued -= n + 1
	called := sh.admitLocked()
	sh.mu.Unlock()
	called.call()
	return task
}

// yield ends a burst. If the strand has more tasks, it goes to the end of the pool's queue.
func (s *strand) yield() {
	sh := s.shard
	sh.mu.Lock()
	if s.running {
		s.running = false
		sh.running--
	}
	var called *worker
	if s.tasks.n > 0 || s.local.left() > 0 {
		called = sh.of.pool.resume(s.run)
	} else {
		s.ready = false
		sh.forgetLocked(s)
	}
	sh.mu.Unlock()
	called.call()
}

// stop closes the shard as part describes. The pool is stopped afterwards.
func (sh *shard) stop(drop bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	for sh.line.first != nil {
		sh.rejectLocked(sh.line.first, ErrClosed)
	}
	if !drop {
		return
	}
	for _, s := range sh.strands {
		n := s.tasks.clear() + s.local.steal(batchSize, nil)
		sh.dropped += uint64(n)
	}
	sh.queued = 0
	clear(sh.strands) // running strands no longer need the map
}
