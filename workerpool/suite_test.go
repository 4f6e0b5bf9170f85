package workerpool_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/workerpool"
)

// background is the context of tests that end by other means.
var background = context.Background()

// shutdowner is an executor that the benchmarks can shut down.
type shutdowner interface {
	Shutdown(ctx context.Context) error
}

// executor is the set of methods that all executors of the package have.
type executor interface {
	workerpool.Executor
	shutdowner
	SubmitBatch(key uint64, tasks []func()) (int, error)
	Stats() workerpool.Stats
	Close() error
}

// kind is one of the executors.
type kind struct {
	name    string
	ordered bool
	make    func(*workerpool.Options) executor
}

var kinds = []kind{
	{"KeyedFixed", true, func(o *workerpool.Options) executor { return workerpool.NewKeyedFixed(o) }},
	{"Shared", false, func(o *workerpool.Options) executor { return workerpool.NewShared(o) }},
	{"RoundRobin", false, func(o *workerpool.Options) executor { return workerpool.NewRoundRobin(o) }},
	{"Elastic", false, func(o *workerpool.Options) executor { return workerpool.NewElastic(o) }},
	{"Strand", true, func(o *workerpool.Options) executor { return workerpool.NewStrand(o) }},
}

// forAll runs a test for each executor, in a bubble of fake time, in which a test that hangs fails at once. The executor that the test makes is
// closed, and must leave no goroutine behind.
func forAll(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, k) })
		})
	}
}

// forPolicies runs forAll for each policy that the executor accepts.
func forPolicies(t *testing.T, test func(t *testing.T, k kind, p workerpool.Policy)) {
	t.Helper()
	forAll(t, func(t *testing.T, k kind) {
		for _, p := range []workerpool.Policy{workerpool.Wait, workerpool.Refuse, workerpool.DropOldest, workerpool.CallerRuns} {
			if k.ordered && p == workerpool.CallerRuns {
				continue
			}
			test(t, k, p)
		}
	})
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want fails the test unless err is the wanted error.
func want(t *testing.T, err, expected error) {
	t.Helper()
	if !errors.Is(err, expected) {
		t.Fatalf("error %v, want %v", err, expected)
	}
}

// wantStats fails the test unless the counters are these.
func wantStats(t *testing.T, e executor, expected workerpool.Stats) {
	t.Helper()
	if got := e.Stats(); got != expected {
		t.Fatalf("stats\n%+v, want\n%+v", got, expected)
	}
}

// hold occupies a worker until release is called. It returns when the worker is occupied.
func hold(t *testing.T, e executor, key uint64) (release func()) {
	t.Helper()
	begun, held := make(chan struct{}), make(chan struct{})
	must(t, e.Submit(key, func() {
		close(begun)
		<-held
	}))
	<-begun
	return func() { close(held) }
}

// one returns options for one worker and one queue with two places.
func one(p workerpool.Policy) *workerpool.Options {
	return &workerpool.Options{Workers: 1, Queues: 1, Queue: 2, Policy: p}
}

func TestRunsAll(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		e := k.make(&workerpool.Options{Workers: 4, Queue: 64})
		var ran atomic.Int64
		var wg sync.WaitGroup
		for p := range uint64(4) {
			wg.Go(func() {
				for i := range uint64(500) {
					if err := e.Submit(p*7+i%50, func() { ran.Add(1) }); err != nil {
						t.Error(err)
					}
				}
				tasks := make([]func(), 300)
				for i := range tasks {
					tasks[i] = func() { ran.Add(1) }
				}
				n, err := e.SubmitBatch(p, tasks)
				if n != len(tasks) || err != nil {
					t.Errorf("SubmitBatch = %d, %v", n, err)
				}
				clear(tasks) // the slice belongs to the caller again
			})
		}
		wg.Wait()
		must(t, e.Shutdown(background))
		if ran.Load() != 3200 {
			t.Errorf("%d tasks ran", ran.Load())
		}
		wantStats(t, e, workerpool.Stats{Submitted: 3200, Run: 3200})
		n, err := e.SubmitBatch(1, nil)
		if n != 0 {
			t.Errorf("an empty batch: %d, %v", n, err)
		}
	})
}

// While the worker is busy and the queue full, each policy does what it says, and TrySubmit refuses under all of them.
func TestPolicies(t *testing.T) {
	forPolicies(t, func(t *testing.T, k kind, p workerpool.Policy) {
		e := k.make(one(p))
		release := hold(t, e, 1)
		var ran [8]atomic.Int64
		task := func(i int) func() { return func() { ran[i].Add(1) } }
		must(t, e.TrySubmit(1, task(0)))
		must(t, e.Submit(1, task(1)))
		wantStats(t, e, workerpool.Stats{Submitted: 3, Queued: 2, Running: 1, Workers: 1})
		want(t, e.TrySubmit(1, task(2)), workerpool.ErrFull)

		expected := workerpool.Stats{Submitted: 3, Run: 3, Refused: 1}
		runs := [8]int64{1, 1}
		switch p {
		case workerpool.Wait:
			done := make(chan error, 1)
			go func() { done <- e.Submit(1, task(3)) }()
			synctest.Wait()
			want(t, e.TrySubmit(1, task(4)), workerpool.ErrFull) // a waiting submitter is not overtaken
			release()
			must(t, <-done)
			expected.Submitted, expected.Run, expected.Refused, runs[3] = 4, 4, 2, 1
		case workerpool.Refuse:
			want(t, e.Submit(1, task(3)), workerpool.ErrFull)
			n, err := e.SubmitBatch(1, []func(){task(4), task(5)})
			if n != 0 {
				t.Fatalf("%d accepted", n)
			}
			want(t, err, workerpool.ErrFull)
			expected.Refused = 4
			release()
		case workerpool.DropOldest:
			must(t, e.Submit(1, task(3)))
			n, err := e.SubmitBatch(1, []func(){task(4), task(5), task(6)})
			if n != 3 || err != nil {
				t.Fatalf("SubmitBatch = %d, %v", n, err)
			}
			expected.Submitted, expected.Dropped, runs = 7, 4, [8]int64{5: 1, 6: 1}
			release()
		case workerpool.CallerRuns:
			must(t, e.Submit(1, task(3)))
			if ran[3].Load() != 1 {
				t.Fatal("the caller has not run it")
			}
			must(t, e.Submit(1, func() { panic("in the caller") }))
			n, err := e.SubmitBatch(1, []func(){task(4), task(5)})
			if n != 2 || err != nil {
				t.Fatalf("SubmitBatch = %d, %v", n, err)
			}
			expected.Submitted, expected.Run, expected.Panicked, runs = 7, 7, 1, [8]int64{1, 1, 0, 1, 1, 1}
			release()
		}
		must(t, e.Shutdown(background))
		wantStats(t, e, expected)
		for i, n := range runs {
			if got := ran[i].Load(); got != n {
				t.Errorf("policy %d: task %d ran %d times, want %d", p, i, got, n)
			}
		}
	})
}

// A waiting submitter gives up after the timeout, not before, and never if there is no timeout.
func TestWaitTimeout(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		for _, timeout := range []time.Duration{0, time.Minute, -1} {
			o := one(workerpool.Wait)
			o.WaitTimeout = timeout
			e := k.make(o)
			release := hold(t, e, 1)
			for range 2 {
				must(t, e.Submit(1, func() {}))
			}
			start := time.Now()
			if timeout < 0 {
				time.AfterFunc(time.Hour, release)
				must(t, e.Submit(1, func() {}))
				timeout = time.Hour
			} else {
				want(t, e.Submit(1, func() { t.Error("it was refused") }), workerpool.ErrFull)
				if timeout == 0 {
					timeout = workerpool.DefaultWaitTimeout
				}
				release()
			}
			if waited := time.Since(start); waited != timeout {
				t.Errorf("waited %v, want %v", waited, timeout)
			}
			must(t, e.Shutdown(background))
		}
	})
}

// Waiting submitters are admitted in the order of arrival.
func TestWaitersInOrder(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		e := k.make(one(workerpool.Wait))
		release := hold(t, e, 1)
		var ran []int // written by the only worker
		for i := range 6 {
			go func() {
				if err := e.Submit(1, func() { ran = append(ran, i) }); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		must(t, e.Shutdown(background))
		for i, got := range ran {
			if got != i {
				t.Fatalf("order %v", ran)
			}
		}
		if len(ran) != 6 {
			t.Fatalf("ran %v", ran)
		}
	})
}

// A task that waits for room which only it could make gets ErrFull in the end, and the executor goes on.
func TestSubmitToItself(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		e := k.make(one(workerpool.Wait))
		var ran atomic.Int64
		var errs []error
		done := make(chan struct{})
		must(t, e.Submit(1, func() {
			for range 3 {
				errs = append(errs, e.Submit(1, func() { ran.Add(1) }))
			}
			close(done)
		}))
		<-done
		must(t, e.Shutdown(background))
		if len(errs) != 3 || errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], workerpool.ErrFull) || ran.Load() != 2 {
			t.Errorf("%v, %d ran", errs, ran.Load())
		}
	})
}

// Without a queue a task is accepted only for a free worker.
func TestNoQueue(t *testing.T) {
	for _, k := range kinds {
		if k.name == "RoundRobin" || k.name == "Strand" {
			continue // these have at least one place
		}
		t.Run(k.name, func(t *testing.T) {
			e := k.make(&workerpool.Options{Workers: 1, Queue: -1, Policy: workerpool.DropOldest})
			release := hold(t, e, 1)
			want(t, e.TrySubmit(1, func() {}), workerpool.ErrFull)
			want(t, e.Submit(1, func() {}), workerpool.ErrFull) // there is no task that can be dropped
			release()
			must(t, e.Shutdown(background))
		})
	}
}

// A nil task panics before any task is accepted.
func TestNilTask(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		e := k.make(nil)
		for name, f := range map[string]func(){
			"Submit":      func() { _ = e.Submit(1, nil) },
			"TrySubmit":   func() { _ = e.TrySubmit(1, nil) },
			"SubmitBatch": func() { _, _ = e.SubmitBatch(1, []func(){func() {}, nil}) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s took nil", name)
					}
				}()
				f()
			}()
		}
		must(t, e.Close())
		wantStats(t, e, workerpool.Stats{})
	})
}

// If a task panics or ends its goroutine, neither the worker nor a later task is lost.
func TestPanics(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		log := newLog()
		e := k.make(&workerpool.Options{Workers: 1, Queue: 1000, Logger: log.logger})
		release := hold(t, e, 1)
		var ran []int // written by the only worker
		for i := range 300 {
			must(t, e.Submit(1, func() {
				ran = append(ran, i)
				switch i % 3 {
				case 1:
					panic("boom")
				case 2:
					runtime.Goexit()
				}
			}))
		}
		release()
		must(t, e.Shutdown(background))
		for i, got := range ran {
			if i != got {
				t.Fatalf("order %v", ran)
			}
		}
		wantStats(t, e, workerpool.Stats{Submitted: 301, Run: 301, Panicked: 200})
		if log.count("boom") != 100 || log.count("<nil>") != 100 || log.count("suite_test.go") != 200 {
			t.Errorf("logged %d panics, %d exits, %d stacks", log.count("boom"), log.count("<nil>"), log.count("suite_test.go"))
		}
	})
}
