package workerpool

import (
	"context"
	"math"
	"sync"
)

// A key with tasks is a strand. It is in its shard's map while it has tasks, runs, or somebody waits to add to it. When its first task
// comes it is put, as a task of its own, into the queue of an elastic pool; the worker that finds it there runs a bounded number
// of its tasks, and puts it at the end again if there are more. So a strand is in the pool at most once, which keeps the order, and
// strands take turns, which is fair.
//
// Lock order: shard, then pool. The pool is called under the shard's lock so that a strand is never in the map, believed to be on its
// way, while a shutdown finds nothing in the pool.

// maxShards is how many shards a Strand has at most; a power of two.
const maxShards = 32

// Strand keeps the order of each key, on workers that belong to no key: the tasks of one key run one after the other, in the order in which
// they were submitted, on whichever worker is free. Workers come and go as those of an [Elastic].
//
// A task that blocks holds up its own key and one worker, and no other key while there is another worker to be had. A key that is busy
// gives way to others each Options.Burst tasks. A key costs memory only while it has tasks.
type Strand struct {
	o      Options
	pool   *pool
	shards []shard
}

// shard has a part of the keys.
type shard struct {
	of    *Strand
	bound int // of tasks that wait

	mu sync.Mutex
	// Guarded by mu.
	strands map[uint64]*strand
	free    *strand // a few for use again
	kept    int
	most    int // strands in the map since it was made
	line    line
	queued  int // in rings; those in hands have left the queue
	running int
	closed  bool

	submitted, dropped, refused uint64

	_ [64]byte // shards do not share a cache line
}

// strand is one key.
type strand struct {
	shard *shard
	run   func() // turn, made once

	// Guarded by the shard's mu.
	key     uint64
	tasks   ring
	waiting int  // in the line of the shard
	ready   bool // in the pool, or has a worker
	running bool // has begun a task in this turn
	next    *strand

	hand hand // owned by the worker that has the strand
}

// What a shard keeps of strands without a key, so that keys which come and go do not allocate: so many, with rings of at most so many
// places. With all shards that is 1.3 MiB at most.
const (
	keptStrands = 32
	keptPlaces  = 128
)

// NewStrand makes a Strand. Options may be nil. It panics if the policy is CallerRuns, which keeps no order. Nothing runs until the first
// task comes, and nothing does when all workers have ended.
func NewStrand(o *Options) *Strand {
	c := o.withDefaults(true)
	c.ordered("Strand")
	c.Queue = max(1, c.Queue)
	inner := c
	inner.Queue = math.MaxInt // as many as there are strands, which are bounded by their tasks
	inner.Policy = Wait
	e := &Strand{o: c, pool: newPool(&inner)}
	shards := maxShards
	for shards > 1 && c.Total/shards < 4*min(c.Queue, math.MaxInt/4) {
		shards /= 2 // one key must not find its shard full
	}
	e.shards = make([]shard, shards)
	for i := range e.shards {
		sh := &e.shards[i]
		sh.of, sh.strands = e, make(map[uint64]*strand)
		sh.bound = max(c.Total/shards, c.Queue)
	}
	return e
}

func (e *Strand) shardOf(key uint64) *shard { return &e.shards[spread(key, len(e.shards))] }

// Submit hands a task over, see [Executor]. It runs after all that were submitted before with the same key.
func (e *Strand) Submit(key uint64, task func()) error {
	mustBeTask(task)
	return e.shardOf(key).submit(key, task)
}

// TrySubmit hands a task over without waiting, see [Executor].
func (e *Strand) TrySubmit(key uint64, task func()) error {
	mustBeTask(task)
	sh := e.shardOf(key)
	sh.mu.Lock()
	if sh.closed || sh.fullLocked(sh.strands[key]) {
		sh.refused++
		err := ErrFull
		if sh.closed {
			err = ErrClosed
		}
		sh.mu.Unlock()
		return err
	}
	called := sh.addLocked(sh.strandLocked(key), task)
	sh.mu.Unlock()
	called.call()
	return nil
}

// SubmitBatch hands many tasks of one key over at once, see [Shared.SubmitBatch]. While it waits for room, tasks that others submit with
// the same key may come in between.
func (e *Strand) SubmitBatch(key uint64, tasks []func()) (n int, err error) {
	mustBeTasks(tasks)
	sh := e.shardOf(key)
	for ; ; n++ {
		var called *worker
		sh.mu.Lock()
		for s := sh.strands[key]; n < len(tasks) && !sh.closed && !sh.fullLocked(s); n++ {
			if s == nil {
				s = sh.strandLocked(key)
			}
			if w := sh.addLocked(s, tasks[n]); w != nil {
				called = w
			}
		}
		sh.mu.Unlock()
		called.call()
		if n == len(tasks) {
			return n, nil
		}
		if err := sh.submit(key, tasks[n]); err != nil {
			sh.mu.Lock()
			sh.refused += uint64(len(tasks) - n - 1)
			sh.mu.Unlock()
			return n, err
		}
	}
}

// Stats returns the counters, of all keys together. Workers are those of the pool; Running is how many keys have a worker's attention.
func (e *Strand) Stats() Stats {
	var all Stats
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		s := Stats{Submitted: sh.submitted, Dropped: sh.dropped, Refused: sh.refused, Queued: sh.queued, Running: sh.running}
		for _, st := range sh.strands {
			s.Queued += st.hand.left()
		}
		sh.mu.Unlock()
		s.Run = s.Submitted - s.Dropped - uint64(s.Queued) - uint64(s.Running)
		all.add(s)
	}
	inner := e.pool.stats()
	all.Panicked, all.Workers = inner.Panicked, inner.Workers
	return all
}

// Keys returns how many keys have tasks now, queued or running.
func (e *Strand) Keys() int {
	n := 0
	for i := range e.shards {
		e.shards[i].mu.Lock()
		n += len(e.shards[i].strands)
		e.shards[i].mu.Unlock()
	}
	return n
}

// Shutdown runs what was accepted and ends, see [Shared.Shutdown].
func (e *Strand) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e) }

// Close drops what has not begun and ends, see [Shared.Close].
func (e *Strand) Close() error {
	closeAll(e)
	return nil
}

// stop is described at part.
func (e *Strand) stop(drop bool) {
	for i := range e.shards {
		e.shards[i].stop(drop)
	}
	e.pool.stop(drop)
}

func (e *Strand) done() <-chan struct{} { return e.pool.gone }
