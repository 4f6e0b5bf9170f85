package workerpool

import (
	"context"
	"math"
	"sync"
)

// A key with tasks is a strand. It is in its shard's map while it has tasks, runs, or a submitter waits to add to it. When its first task comes,
// the strand itself is put, as a task, into the queue of an elastic pool. The worker that takes it runs a bounded number of its tasks, and puts
// it at the end of the queue again if it has more. So a strand is in the pool at most once, which keeps the order, and strands alternate, which
// is fair.
//
// Lock order: shard, then pool. The pool is called under the shard's lock. Otherwise a shutdown could find the pool empty while a strand is in
// the map and counts as queued.

// maxShards is the most shards that a Strand has. It is a power of two.
const maxShards = 32

// Strand keeps the order of each key on workers that are not bound to a key. The tasks of one key run one after the other, in the order in which
// they were submitted, on any free worker. Workers start and end as those of an [Elastic].
//
// A task that blocks holds up its own key and one worker. It holds up other keys only if no worker is left. A busy key gives way to others after
// every Options.Burst tasks. A key costs memory only while it has tasks.
type Strand struct {
	o      Options
	pool   *pool
	shards []shard
}

// shard is a part of the keys of a Strand, with its own lock.
type shard struct {
	of    *Strand
	bound int // the most tasks that may wait

	mu sync.Mutex
	// Guarded by mu.
	strands map[uint64]*strand
	free    *strand // unused strands, for use again
	kept    int
	most    int // the most strands in the map since the map was made
	line    line
	queued  int // tasks in rings; tasks in local queues have left the queue
	running int
	closed  bool

	submitted, dropped, refused uint64

	_ [64]byte // shards do not share a cache line
}

// strand is a key that has tasks.
type strand struct {
	shard *shard
	run   func() // the method value runBurst, made once

	// Guarded by the shard's mu.
	key     uint64
	tasks   ring
	waiting int  // how many submitters in the line of the shard wait for this key
	ready   bool // in the queue of the pool, or on a worker
	running bool // has begun a task in this burst
	next    *strand

	local localQueue // owned by the worker that runs the strand
}

// A shard keeps unused strands, so that keys which come and go do not allocate: at most keptStrands, with rings of at most keptPlaces places.
// With all shards that is at most 1.3 MiB.
const (
	keptStrands = 32
	keptPlaces  = 128
)

// NewStrand makes a Strand with options o, which may be nil. It panics if the policy is CallerRuns, which keeps no order. No goroutine runs
// before the first task and after the last worker has ended.
func NewStrand(o *Options) *Strand {
	c := o.withDefaults(true)
	c.ordered("Strand")
	c.Queue = max(1, c.Queue)
	inner := c
	inner.Queue = math.MaxInt // holds strands; the bound on their tasks bounds their number
	inner.Policy = Wait
	e := &Strand{o: c, pool: newPool(&inner)}
	shards := maxShards
	for shards > 1 && c.Total/shards < 4*min(c.Queue, math.MaxInt/4) {
		shards /= 2 // a shard has room for four full keys, so that one key does not fill it
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

// Submit submits a task, see [Executor]. The task runs after all tasks that were submitted before with the same key.
func (e *Strand) Submit(key uint64, task func()) error {
	mustBeTask(task)
	return e.shardOf(key).submit(key, task)
}

// TrySubmit submits a task without waiting, see [Executor].
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

// SubmitBatch submits many tasks of one key at once, see [Shared.SubmitBatch]. While it waits for room, tasks that other goroutines submit with
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

// Stats returns the sum of the counters of all keys. Workers are those of the pool. Running is the number of keys whose tasks a worker runs.
func (e *Strand) Stats() Stats {
	var all Stats
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		s := Stats{Submitted: sh.submitted, Dropped: sh.dropped, Refused: sh.refused, Queued: sh.queued, Running: sh.running}
		for _, st := range sh.strands {
			s.Queued += st.local.left()
		}
		sh.mu.Unlock()
		s.Run = s.Submitted - s.Dropped - uint64(s.Queued) - uint64(s.Running)
		all.add(s)
	}
	inner := e.pool.stats()
	all.Panicked, all.Workers = inner.Panicked, inner.Workers
	return all
}

// Keys returns the number of keys that have tasks now, queued or running.
func (e *Strand) Keys() int {
	n := 0
	for i := range e.shards {
		e.shards[i].mu.Lock()
		n += len(e.shards[i].strands)
		e.shards[i].mu.Unlock()
	}
	return n
}

// Shutdown runs the accepted tasks and ends the executor, see [Shared.Shutdown].
func (e *Strand) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e) }

// Close drops the tasks that have not begun and ends the executor, see [Shared.Close].
func (e *Strand) Close() error {
	closeAll(e)
	return nil
}

// stop implements part.
func (e *Strand) stop(drop bool) {
	for i := range e.shards {
		e.shards[i].stop(drop)
	}
	e.pool.stop(drop)
}

func (e *Strand) done() <-chan struct{} { return e.pool.gone }
