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

// Executor runs tasks on its own goroutines. All types of this package with a Submit method are Executors. A function that takes an executor
// documents what it requires of it.
//
// A task is run at most once, and exactly once unless it is dropped, which is counted. The policy [DropOldest] drops tasks, and so does closing
// the executor before they begin. If Submit returns an error, the task was not accepted and will not run. A task sees all memory that its
// submitter wrote before submitting it. A panic in a task, or runtime.Goexit, ends that task only. A nil task panics.
//
// All methods are safe for concurrent use, also by tasks.
type Executor interface {
	// Submit submits a task. Executors that keep an order keep it among the tasks of one key; the other executors ignore the key. If the queue
	// is full, the Policy decides: Submit waits, refuses with ErrFull, drops another task, or runs this one itself. After Close or Shutdown,
	// also if it was waiting then, Submit returns ErrClosed.
	//
	// A task that submits to its own executor under the policy Wait may wait for itself. That ends with ErrFull after Options.WaitTimeout; use
	// TrySubmit there.
	Submit(key uint64, task func()) error
	// TrySubmit submits a task without waiting. It drops no other task and never runs the task itself. It returns ErrFull if the queue is full
	// or other submitters wait for room, and ErrClosed after Close or Shutdown.
	TrySubmit(key uint64, task func()) error
}

// The errors of Submit, TrySubmit and SubmitBatch. They are returned unwrapped, and are meant for errors.Is.
var (
	// ErrFull means that the queue had no room, and did not get any within Options.WaitTimeout if Submit waited.
	ErrFull = errors.New("workerpool: queue full")
	// ErrClosed means that Close or Shutdown was called.
	ErrClosed = errors.New("workerpool: closed")
)

// Policy says what Submit does if the queue is full.
type Policy uint8

// The policies.
const (
	// Wait makes Submit wait for room, at most Options.WaitTimeout. Submitters are served in the order of arrival. Wait is the default.
	Wait Policy = iota + 1
	// Refuse makes Submit return ErrFull.
	Refuse
	// DropOldest makes Submit drop the task that has waited longest in the queue of the new task: in a [Strand] a task of the same key. If that
	// queue has no task, Submit returns ErrFull. Under this policy workers do not take tasks in batches, so that the dropped task really is the
	// oldest; tasks cost a little more.
	DropOldest
	// CallerRuns makes Submit run the task on the goroutine that called it, before it returns. It is for executors without an order: it would
	// break the order of a key, so NewKeyedFixed and NewStrand panic. Runtime.Goexit in such a task ends the calling goroutine.
	CallerRuns
)

// The defaults of the numeric fields of [Options].
const (
	DefaultQueue       = 1024             // tasks in each queue; in a Strand, tasks of each key
	DefaultTotal       = 64 << 10         // tasks of all keys of a Strand
	DefaultElastic     = 1024             // workers of Elastic and Strand
	DefaultIdleTime    = 10 * time.Second // how long a worker of Elastic and Strand is idle before it ends
	DefaultWaitTimeout = 10 * time.Second // how long Submit waits under the policy Wait
	DefaultBurst       = 32               // tasks of one key in a row
)

// Options are the settings of an executor. A nil *Options selects all defaults. In each field zero is the default, and the comment of the field
// says what a negative value means. The constructor copies the options.
type Options struct {
	// Workers is the maximal number of goroutines that run tasks. They start when they are first needed. The default is GOMAXPROCS; in Elastic
	// and Strand it is DefaultElastic. Negative means no bound for Elastic and Strand, and the default for the others.
	Workers int
	// Queue is how many tasks may wait if all workers are busy: in KeyedFixed for each worker, in RoundRobin in each queue, in a Strand for each
	// key, otherwise in the whole executor. The default is DefaultQueue. Negative means no queue: a task is accepted only for a free worker. In
	// RoundRobin and Strand, whose workers find tasks only in queues, negative means 1. While all workers are busy, they may have taken up to a
	// quarter of the bound in addition.
	Queue int
	// Policy is what Submit does if the queue is full. The default is Wait.
	Policy Policy
	// WaitTimeout bounds how long Submit waits under the policy Wait before it returns ErrFull. The default is DefaultWaitTimeout; negative
	// waits without end.
	WaitTimeout time.Duration
	// Logger receives a record at level Error, with the stack, for each panic in a task. Nil discards the records. The Logger must not panic.
	Logger *slog.Logger

	// Queues is the number of queues of a RoundRobin. The default is the number of workers. The other executors ignore Queues.
	Queues int
	// IdleTime is how long a worker of Elastic or Strand is idle before it ends; it may be up to twice as long. The default is DefaultIdleTime;
	// negative keeps idle workers. The other executors always keep theirs.
	IdleTime time.Duration
	// Total is how many tasks of all keys together may wait in a Strand. It is divided among up to 32 shards of the keys, so that an uneven load
	// reaches the bound a little earlier. The default is DefaultTotal, and negative means no bound. Total is never less than Queue.
	Total int
	// Burst is how many tasks of one key a worker of a Strand runs in a row while other keys wait. The default is DefaultBurst; negative is 1.
	Burst int
}

// withDefaults returns a copy of o with the defaults filled in. In the copy, math.MaxInt means no bound and zero means off.
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

// ordered panics if the policy cannot keep the order that the executor called name promises.
func (o *Options) ordered(name string) {
	if o.Policy == CallerRuns {
		panic("workerpool: " + name + " with CallerRuns, which does not keep the order of a key")
	}
}

// choose returns v if it is positive, otherwise the value for zero or the value for negative numbers.
func choose[T int | time.Duration](v, zero, negative T) T {
	switch {
	case v == 0:
		return zero
	case v < 0:
		return negative
	}
	return v
}

// Stats are the counters of an executor since it was made, and its present contents. Submitted is always the sum of Run, Dropped, Queued and
// Running. Parts of an executor that have their own lock are read one after the other, so a task that moves meanwhile may be counted where it
// was before.
type Stats struct {
	Submitted uint64 // accepted tasks, including tasks that Submit ran itself
	Run       uint64 // tasks that have ended, however they ended
	Panicked  uint64 // the part of Run that panicked or called runtime.Goexit
	Dropped   uint64 // accepted tasks that DropOldest, Close, or Shutdown after its context was done has dropped
	Refused   uint64 // tasks that were not accepted, for either error

	Queued  int // accepted tasks that have not begun
	Running int // tasks that have begun and not ended
	Workers int // worker goroutines, idle or not
}

// add adds the counters of another part of the same executor.
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

// seed makes the keys of strings differ from process to process, so that a peer cannot choose strings whose keys share one queue.
var seed = maphash.MakeSeed()

// Key returns a key for a string, for Submit. Equal strings have equal keys within one process. Different strings have different keys, except
// with a probability of 2⁻⁶⁴; if two strings share a key, their tasks are kept in one order, without other effects. Key does not allocate.
func Key(s string) uint64 { return maphash.String(seed, s) }

// spread maps a key to a number below n. It is Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4), which spreads
// consecutive numbers, such as ids, more evenly than chance.
func spread(key uint64, n int) int {
	hi, _ := bits.Mul64(key*0x9e3779b97f4a7c15, uint64(n))
	return int(hi)
}

// mustBeTask panics if task is nil.
func mustBeTask(task func()) {
	if task == nil {
		panic("workerpool: nil task")
	}
}

// mustBeTasks panics if one of the tasks is nil.
func mustBeTasks(tasks []func()) {
	for _, task := range tasks {
		mustBeTask(task)
	}
}
