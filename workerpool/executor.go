package workerpool

import (
	"errors"
	"hash/maphash"
	"log/slog"
	"math"
	"math/bits"
	"runtime"
	"time"
)

// Executor runs tasks on goroutines of its own. All of this package are Executors; who takes one declares what it needs of it.
//
// A task is run at most once, and exactly once unless it is dropped, which is counted: by the policy [DropOldest], or because the
// executor was closed first. An error says that the task was not accepted and will not run. What a task writes before it is submitted
// the task sees. A panic in a task, or runtime.Goexit, ends that task only. Tasks must not be nil; a nil one panics.
//
// All methods may be called by any goroutine at any time, also by tasks.
type Executor interface {
	// Submit hands a task over. Executors that keep an order keep it for the tasks of one key; to the others the key means
	// nothing. When the queue is full the Policy decides: Submit waits, refuses with ErrFull, drops another task, or runs this one
	// itself. After Close or Shutdown, also if it was waiting then, it returns ErrClosed.
	//
	// A task that submits to its own executor under the policy Wait may wait for itself. That ends with ErrFull after
	// Options.WaitTimeout; use TrySubmit there.
	Submit(key uint64, task func()) error
	// TrySubmit is Submit that never waits, drops nothing and never runs the task itself: it returns ErrFull when the queue is
	// full, or others wait for room, and ErrClosed after Close or Shutdown.
	TrySubmit(key uint64, task func()) error
}

// The errors of Submit, TrySubmit and SubmitBatch, as they are, for errors.Is.
var (
	// ErrFull means that the queue had no room, or had none for Options.WaitTimeout.
	ErrFull = errors.New("workerpool: queue full")
	// ErrClosed means that Close or Shutdown was called.
	ErrClosed = errors.New("workerpool: closed")
)

// Policy says what Submit does when the queue is full.
type Policy uint8

// The policies.
const (
	// Wait makes Submit wait for room, at most Options.WaitTimeout, first come first served. It is the default.
	Wait Policy = iota + 1
	// Refuse makes Submit return ErrFull.
	Refuse
	// DropOldest makes Submit drop the task that has waited longest in the queue the new one goes to: in a [Strand] one of the same
	// key. It returns ErrFull when there is none. Under this policy workers do not take tasks in batches, so that the one dropped
	// is the oldest indeed; tasks cost a little more.
	DropOldest
	// CallerRuns makes Submit run the task on the goroutine that called it, before it returns. It is for executors without an
	// order: NewKeyedFixed and NewStrand panic, for they would break their promise. Runtime.Goexit in such a task ends the caller.
	CallerRuns
)

// The defaults of [Options] that are numbers.
const (
	DefaultQueue       = 1024             // tasks, of each queue, and in a Strand of each key
	DefaultTotal       = 64 << 10         // tasks, of all keys of a Strand
	DefaultElastic     = 1024             // workers of Elastic and Strand
	DefaultIdleTime    = 10 * time.Second // until an idle worker of Elastic and Strand ends
	DefaultWaitTimeout = 10 * time.Second // until Submit gives up under the policy Wait
	DefaultBurst       = 32               // tasks of one key in a row
)

// Options are the settings of an executor. A nil *Options is all defaults. In each field zero is the default, and negative means what the
// field says. They are copied by the constructor.
type Options struct {
	// Workers is the most goroutines that run tasks; they start when they are first needed. The default is GOMAXPROCS, in Elastic
	// and Strand DefaultElastic. Negative is no bound for those two, and the default for the others.
	Workers int
	// Queue is how many tasks may wait when all workers are busy: in KeyedFixed for each worker, in RoundRobin in each queue, in a
	// Strand for each key, otherwise in all. The default is DefaultQueue. Negative is none: a task is accepted only for a
	// worker that is free; in RoundRobin and Strand, where it has to be in a queue to be found, it is one. While all workers are
	// busy they may have taken up to a quarter of the bound in addition.
	Queue int
	// Policy is what Submit does when the queue is full; default Wait.
	Policy Policy
	// WaitTimeout bounds how long Submit waits under the policy Wait, then it returns ErrFull. Negative waits without end.
	WaitTimeout time.Duration
	// Logger is told of panics, at level Error, with the stack. Nil discards that. It must not panic.
	Logger *slog.Logger

	// Queues is the number of queues of a RoundRobin; default as many as workers. Others ignore it.
	Queues int
	// IdleTime is how long a worker of Elastic or Strand has nothing to do before it ends; it may be up to twice as long. The
	// default is DefaultIdleTime; negative keeps workers. Others keep theirs always.
	IdleTime time.Duration
	// Total is how many tasks of all keys together may wait in a Strand. It is divided among up to 32 shards of the keys, so that an
	// uneven load finds it full a little earlier. The default is DefaultTotal, negative is no bound, and it is never less than
	// Queue.
	Total int
	// Burst is how many tasks of one key a worker of a Strand runs in a row while others wait. The default is DefaultBurst;
	// negative is 1.
	Burst int
}

// withDefaults returns a copy in which every field means what it says: no bound is math.MaxInt, off is zero.
func (o *Options) withDefaults(elastic bool) Options {
	var c Options
	if o != nil {
		c = *o
	}
	switch {
	case elastic && c.Workers == 0:
		c.Workers = DefaultElastic
	case elastic && c.Workers < 0:
		c.Workers = math.MaxInt
	case c.Workers <= 0:
		c.Workers = runtime.GOMAXPROCS(0)
	}
	c.Queue = choose(c.Queue, DefaultQueue, 0)
	if c.Policy == 0 {
		c.Policy = Wait
	}
	if c.Policy > CallerRuns {
		panic("workerpool: no such policy")
	}
	c.WaitTimeout = choose(c.WaitTimeout, DefaultWaitTimeout, 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Queues <= 0 {
		c.Queues = c.Workers
	}
	c.IdleTime = choose(c.IdleTime, DefaultIdleTime, 0)
	if !elastic {
		c.IdleTime = 0
	}
	c.Total = max(choose(c.Total, DefaultTotal, math.MaxInt), c.Queue)
	c.Burst = choose(c.Burst, DefaultBurst, 1)
	return c
}

// ordered panics when the policy cannot keep the order that the constructor called name promises.
func (o *Options) ordered(name string) {
	if o.Policy == CallerRuns {
		panic("workerpool: " + name + " with CallerRuns, which does not keep the order of a key")
	}
}

// choose returns v, or what stands for zero, or for a negative v.
func choose[T int | time.Duration](v, zero, negative T) T {
	switch {
	case v == 0:
		return zero
	case v < 0:
		return negative
	}
	return v
}

// Stats are the counters of an executor since it was made, and what is in it now. Submitted is always the sum of Run, Dropped, Queued and
// Running. Parts of an executor that have a lock each are read one after the other, so that tasks which move meanwhile may be
// counted where they were.
type Stats struct {
	Submitted uint64 // tasks accepted, also those that Submit ran itself
	Run       uint64 // tasks that began and ended, however they ended
	Panicked  uint64 // of those, the ones that panicked or called runtime.Goexit
	Dropped   uint64 // accepted and never run: by DropOldest, Close, or Shutdown when its context was done
	Refused   uint64 // tasks not accepted, for either error

	Queued  int // accepted and not begun
	Running int // begun and not ended
	Workers int // goroutines, idle or not
}

// add adds what another part of the same executor has counted.
func (s *Stats) add(t Stats) {
	s.Submitted += t.Submitted
	s.Run += t.Run
	s.Panicked += t.Panicked
	s.Dropped += t.Dropped
	s.Refused += t.Refused
	s.Queued += t.Queued
	s.Running += t.Running
	s.Workers += t.Workers
}

// seed makes keys of strings differ from process to process, so that nobody can choose strings that meet in one queue.
var seed = maphash.MakeSeed()

// Key returns a key for a string, for Submit. Equal strings have equal keys within one process. Different strings have, but for one
// chance in 2^64, different keys; if they meet, their tasks are in one order, and nothing else happens. It does not allocate.
func Key(s string) uint64 { return maphash.String(seed, s) }

// spread returns a number below n for a key. It is Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4): numbers
// in a row, as ids are, are dealt out almost evenly, better than chance would.
func spread(key uint64, n int) int {
	hi, _ := bits.Mul64(key*0x9e3779b97f4a7c15, uint64(n))
	return int(hi)
}

// mustBeTask panics unless there is a task.
func mustBeTask(task func()) {
	if task == nil {
		panic("workerpool: nil task")
	}
}

// mustBeTasks panics unless there are only tasks.
func mustBeTasks(tasks []func()) {
	for _, task := range tasks {
		mustBeTask(task)
	}
}
