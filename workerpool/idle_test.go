package workerpool_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/workerpool"
)

// A task that blocks does not hold up the other tasks that its worker has taken while another worker is idle.
func TestNothingWaitsForABlockedTask(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		if k.name == "KeyedFixed" {
			return // there it does: keys share a worker
		}
		for _, workers := range []int{2, 4} {
			e := k.make(&workerpool.Options{Workers: workers, Queue: 4000, Total: 4000})
			var releases []func()
			for key := range workers {
				releases = append(releases, hold(t, e, uint64(key)))
			}
			// All workers are busy: the first free worker takes the task that blocks, and others into its local queue.
			blocked, held := make(chan struct{}), make(chan struct{})
			must(t, e.Submit(1000, func() {
				close(blocked)
				<-held
			}))
			var ran atomic.Int64
			for key := range uint64(1000) {
				must(t, e.Submit(2000+key, func() { ran.Add(1) }))
			}
			releases[0]()
			<-blocked
			if k.name != "Strand" && k.name != "RoundRobin" && (ran.Load() != 0 || e.Stats().Queued != 1000) {
				t.Fatalf("%d ran, %+v", ran.Load(), e.Stats())
			}
			releases[1]()
			synctest.Wait()
			if ran.Load() != 1000 {
				t.Errorf("%d workers: only %d of 1000 ran beside a task that blocks", workers, ran.Load())
			}
			for _, release := range releases[2:] {
				release()
			}
			close(held)
			must(t, e.Shutdown(background))
		}
	})
}

// Tasks that wait for each other get workers, however they were submitted: all of them have to run at the same time.
func TestAsManyAsThereAreWorkers(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		if k.name == "KeyedFixed" {
			return
		}
		const workers = 50
		e := k.make(&workerpool.Options{Workers: workers})
		for round := range 20 {
			var all sync.WaitGroup
			all.Add(workers)
			tasks := make([]func(), workers)
			for i := range tasks {
				tasks[i] = func() {
					all.Done()
					all.Wait()
				}
			}
			if round%2 == 0 && k.name != "Strand" { // the tasks of a Strand's batch have one key
				n, err := e.SubmitBatch(1, tasks)
				if n != workers || err != nil {
					t.Fatal(n, err)
				}
			} else {
				for i, task := range tasks {
					must(t, e.Submit(uint64(i), task))
				}
			}
			all.Wait()
		}
		must(t, e.Shutdown(background))
		wantStats(t, e, workerpool.Stats{Submitted: 20 * workers, Run: 20 * workers})
	})
}

// A task that comes while the last worker becomes idle is not forgotten.
func TestNoTaskIsForgotten(t *testing.T) {
	for _, k := range kinds {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", k.name, workers), func(t *testing.T) {
				e := k.make(&workerpool.Options{Workers: workers, Queue: 8, IdleTime: 10 * time.Microsecond})
				rnd := rand.New(rand.NewPCG(1, uint64(workers)))
				for range 5000 {
					n := 1 + rnd.IntN(5)
					var all sync.WaitGroup
					all.Add(n)
					for i := range n { // no later task wakes the worker for the last of these
						must(t, e.Submit(uint64(i), all.Done))
						spin(rnd.IntN(2000))
					}
					all.Wait()
				}
				must(t, e.Close())
			})
		}
	}
}

// elastic are the executors whose idle workers end.
func elastic(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	forAll(t, func(t *testing.T, k kind) {
		if k.name == "Elastic" || k.name == "Strand" {
			test(t, k)
		}
	})
}

// Idle workers end after the idle time and before twice that; the worker that is used stays.
func TestShrinks(t *testing.T) {
	elastic(t, func(t *testing.T, k kind) {
		e := k.make(&workerpool.Options{Workers: -1, IdleTime: time.Minute})
		var releases []func()
		for key := range uint64(300) {
			releases = append(releases, hold(t, e, key))
		}
		if n := e.Stats().Workers; n != 300 {
			t.Fatalf("%d workers for 300 tasks", n)
		}
		for _, release := range releases {
			release()
		}
		after := func(d time.Duration) int {
			<-time.After(d)
			synctest.Wait()
			return e.Stats().Workers
		}
		if n := after(59 * time.Second); n != 300 {
			t.Fatalf("%d workers before the idle time", n)
		}
		for range 62 { // uses one worker each second
			must(t, e.Submit(1, func() {}))
			after(time.Second)
		}
		if n := e.Stats().Workers; n != 1 {
			t.Fatalf("%d workers after twice the idle time", n)
		}
		if n := after(2 * time.Minute); n != 0 {
			t.Fatalf("%d workers at last", n)
		}
		before := runtime.NumGoroutine()
		hold(t, e, 7)()
		if n := after(0); n != 1 {
			t.Fatalf("%d workers of %d goroutines", n, before)
		}
		must(t, e.Close())
	})
}

// A negative idle time keeps idle workers.
func TestKeepsIdleWorkers(t *testing.T) {
	elastic(t, func(t *testing.T, k kind) {
		e := k.make(&workerpool.Options{IdleTime: -1})
		hold(t, e, 1)()
		<-time.After(1000 * time.Hour)
		if n := e.Stats().Workers; n != 1 {
			t.Errorf("%d workers", n)
		}
		must(t, e.Close())
	})
}

// Beyond the bound of workers tasks wait, and beyond the bound of the queue the policy applies.
func TestElasticBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := workerpool.NewElastic(&workerpool.Options{Workers: 3, Queue: 2, Policy: workerpool.Refuse})
		held := make(chan struct{})
		for range 5 { // also if no worker has arrived yet
			must(t, e.Submit(0, func() { <-held }))
		}
		want(t, e.Submit(0, func() {}), workerpool.ErrFull)
		synctest.Wait()
		want(t, e.Submit(0, func() {}), workerpool.ErrFull)
		wantStats(t, e, workerpool.Stats{Submitted: 5, Refused: 2, Queued: 2, Running: 3, Workers: 3})
		close(held)
		must(t, e.Shutdown(background))
	})
}

// A burst of short tasks does not start a worker for each.
func TestElasticStartsFew(t *testing.T) {
	e := workerpool.NewElastic(&workerpool.Options{Workers: -1})
	tasks := make([]func(), 10_000)
	var most atomic.Int64
	for i := range tasks {
		tasks[i] = func() { most.Store(max(most.Load(), int64(e.Stats().Workers))) }
	}
	if _, err := e.SubmitBatch(0, tasks); err != nil {
		t.Fatal(err)
	}
	must(t, e.Shutdown(background))
	if n := most.Load(); n < 1 || n > 5000 {
		t.Errorf("%d workers for 10,000 short tasks", n)
	}
}

// After rings and pools have grown to their sizes, a task allocates nothing, whether a worker is idle or tasks queue up.
func TestNoAllocations(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			e := k.make(&workerpool.Options{Workers: 2, Queue: 100})
			done := make(chan struct{}, 1)
			one, none := func() { done <- struct{}{} }, func() {}
			batch := []func(){none, none, none, none, none, none, none, one}
			submit := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			load := map[string]func(){
				"idle": func() {
					submit(e.Submit(1, one))
					<-done
				},
				"batch": func() {
					_, err := e.SubmitBatch(1, batch)
					submit(err)
					<-done
				},
				"waiting": func() {
					for range 300 {
						submit(e.Submit(1, none))
					}
					submit(e.Submit(1, one))
					<-done
				},
			}
			for name, f := range load {
				for range 10 {
					f()
				}
				if n := testing.AllocsPerRun(200, f); n > 0 {
					t.Errorf("%s: %v allocations", name, n)
				}
			}
			must(t, e.Close())
		})
	}
}

// Any options make an executor that works, unless they contradict each other.
func TestOptions(t *testing.T) {
	for _, k := range kinds {
		for _, n := range []int{-1, 1, math.MaxInt} {
			o := &workerpool.Options{
				Queue: n, WaitTimeout: time.Duration(n), IdleTime: time.Duration(n), Total: n, Burst: n,
			}
			if k.name == "Elastic" || k.name == "Strand" {
				o.Workers = n
			}
			e := k.make(o)
			*o = workerpool.Options{Policy: 77} // the constructor has copied the options
			release := hold(t, e, 1)
			release()
			must(t, e.Shutdown(background))
		}
		mustPanic(t, k.name, func() { k.make(&workerpool.Options{Policy: workerpool.CallerRuns + 1}) })
		if k.ordered {
			mustPanic(t, k.name, func() { k.make(&workerpool.Options{Policy: workerpool.CallerRuns}) })
		}
	}
	var o *workerpool.Options
	if d := o.Defaults(false); d.Workers != runtime.GOMAXPROCS(0) || d.Queues != d.Workers || d.Queue != workerpool.DefaultQueue ||
		d.Policy != workerpool.Wait || d.WaitTimeout != workerpool.DefaultWaitTimeout || d.IdleTime != 0 {
		t.Errorf("defaults %+v", d)
	}
	if d := o.Defaults(true); d.Workers != workerpool.DefaultElastic || d.IdleTime != workerpool.DefaultIdleTime ||
		d.Total != workerpool.DefaultTotal || d.Burst != workerpool.DefaultBurst {
		t.Errorf("defaults %+v", d)
	}
}

// mustPanic fails the test if f returns.
func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

// Consecutive keys are spread almost evenly, and so are keys with a stride and hashes of strings.
func TestSpread(t *testing.T) {
	for name, key := range map[string]func(i int) uint64{
		"row":    func(i int) uint64 { return uint64(i) },
		"stride": func(i int) uint64 { return uint64(i) * 1024 },
		"high":   func(i int) uint64 { return uint64(i) << 40 },
		"string": func(i int) uint64 { return workerpool.Key(string(rune(i))) },
	} {
		for _, n := range []int{1, 2, 3, 7, 16, 100} {
			counts := make([]int, n)
			for i := range 100 * n {
				counts[workerpool.Spread(key(i), n)]++
			}
			for q, c := range counts {
				if c < 50 || c > 150 {
					t.Errorf("%s: %d of %d keys in queue %d of %d", name, c, 100*n, q, n)
				}
			}
		}
	}
	if a := workerpool.Key("a"); a != workerpool.Key(string([]byte{'a'})) || a == workerpool.Key("b") {
		t.Error("keys of strings")
	}
}
