package workerpool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/workerpool"
)

// trial is an executor on which all operations run concurrently, and a record of them.
type trial struct {
	k        kind
	o        workerpool.Options
	e        executor
	seed     uint64
	tasks    []*job
	accepted atomic.Uint64
	refused  atomic.Uint64
	gate     chan struct{} // closed at the end, so that blocked tasks end

	mu     sync.Mutex
	faults []string
}

// job is one task.
type job struct {
	key      uint64
	number   int // its number among the tasks of its key
	ran      atomic.Int32
	accepted bool
}

// ledger is the record of a key while its tasks run.
type ledger struct {
	running atomic.Int32
	last    atomic.Int64
}

// bad records a violation.
func (tr *trial) bad(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faults = append(tr.faults, fmt.Sprintf(format, args...))
}

// drawTrial draws an executor with small limits.
func drawTrial(t *rapid.T, kinds []kind) *trial {
	k := rapid.SampledFrom(kinds).Draw(t, "kind")
	policies := []workerpool.Policy{workerpool.Wait, workerpool.Refuse, workerpool.DropOldest}
	if !k.ordered {
		policies = append(policies, workerpool.CallerRuns)
	}
	tr := &trial{k: k, seed: rapid.Uint64().Draw(t, "seed"), gate: make(chan struct{})}
	tr.o = workerpool.Options{
		Workers:     rapid.SampledFrom([]int{1, 2, 3, 5}).Draw(t, "workers"),
		Queue:       rapid.SampledFrom([]int{-1, 1, 3, 40, 1000}).Draw(t, "queue"),
		Policy:      rapid.SampledFrom(policies).Draw(t, "policy"),
		WaitTimeout: rapid.SampledFrom([]time.Duration{-1, time.Microsecond, time.Millisecond}).Draw(t, "timeout"),
		Queues:      rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "queues"),
		IdleTime:    rapid.SampledFrom([]time.Duration{-1, time.Microsecond, time.Second}).Draw(t, "idle"),
		Total:       rapid.SampledFrom([]int{-1, 1, 50, 5000}).Draw(t, "total"),
		Burst:       rapid.SampledFrom([]int{-1, 0, 3}).Draw(t, "burst"),
	}
	tr.e = k.make(&tr.o)
	return tr
}

// produce submits the tasks of one producer's keys, in order, with all methods. Each task does something at random.
func (tr *trial) produce(producer, tasks int) {
	rnd := rand.New(rand.NewPCG(tr.seed, uint64(producer)))
	const keys = 3
	var ledgers [keys]ledger
	var numbers [keys]int
	var all []*job
	for len(all) < tasks {
		k := rnd.IntN(keys)
		n := 1
		if rnd.IntN(5) == 0 {
			n = rnd.IntN(40)
		}
		batch, funcs := make([]*job, n), make([]func(), n)
		for i := range batch {
			numbers[k]++
			batch[i] = &job{key: uint64(producer*keys + k), number: numbers[k]}
			funcs[i] = tr.task(batch[i], &ledgers[k], rnd.IntN(20))
		}
		all = append(all, batch...)
		tr.submit(rnd, batch, funcs)
	}
	tr.mu.Lock()
	tr.tasks = append(tr.tasks, all...)
	tr.mu.Unlock()
}

// submit submits tasks of one key and records the results.
func (tr *trial) submit(rnd *rand.Rand, batch []*job, funcs []func()) {
	if len(batch) == 0 {
		return
	}
	var n int
	var err error
	switch {
	case len(batch) > 1:
		n, err = tr.e.SubmitBatch(batch[0].key, funcs)
	case rnd.IntN(4) == 0:
		err = tr.e.TrySubmit(batch[0].key, funcs[0])
	default:
		err = tr.e.Submit(batch[0].key, funcs[0])
	}
	if len(batch) == 1 && err == nil {
		n = 1
	}
	if err == nil && n != len(batch) || err != nil && n == len(batch) {
		tr.bad("%d of %d accepted, and error %v", n, len(batch), err)
	}
	if err != nil && !errors.Is(err, workerpool.ErrFull) && !errors.Is(err, workerpool.ErrClosed) {
		tr.bad("error %v", err)
	}
	for _, j := range batch[:n] {
		j.accepted = true
	}
	tr.accepted.Add(uint64(n))
	tr.refused.Add(uint64(len(batch) - n))
}

// task returns the function of a job. If the executor keeps an order, the function checks it.
func (tr *trial) task(j *job, l *ledger, what int) func() {
	return func() {
		j.ran.Add(1)
		if tr.k.ordered {
			if l.running.Add(1) != 1 {
				tr.bad("key %d: two tasks at a time", j.key)
			}
			if last := l.last.Swap(int64(j.number)); last >= int64(j.number) {
				tr.bad("key %d: task %d after %d", j.key, j.number, last)
			}
			defer l.running.Add(-1)
		}
		switch what {
		case 0:
			panic("boom")
		case 1:
			if tr.o.Policy != workerpool.CallerRuns { // there it ends the producer
				runtime.Goexit()
			}
		case 2:
			runtime.Gosched()
		case 3:
			select {
			case <-tr.gate:
			case <-time.After(50 * time.Microsecond):
			}
		case 4:
			_ = tr.e.Stats()
		}
	}
}

// settle compares the record with the executor's counters at the end.
func (tr *trial) settle(t *rapid.T) {
	var ran uint64
	for _, j := range tr.tasks {
		n := j.ran.Load()
		ran += uint64(n)
		if n > 1 || n == 1 && !j.accepted {
			tr.bad("task %d of key %d: accepted %v, ran %d times", j.number, j.key, j.accepted, n)
		}
	}
	s := tr.e.Stats()
	if s.Submitted != tr.accepted.Load() || s.Refused != tr.refused.Load() || s.Run != ran || s.Dropped != s.Submitted-ran ||
		s.Queued != 0 || s.Running != 0 || s.Workers != 0 {
		tr.bad("accepted %d, refused %d, ran %d: %+v", tr.accepted.Load(), tr.refused.Load(), ran, s)
	}
	for _, f := range tr.faults[:min(10, len(tr.faults))] {
		t.Errorf("%s: %s", tr.k.name, f)
	}
	if len(tr.faults) > 0 {
		t.FailNow()
	}
}

// Every accepted task runs once or is counted as dropped, refused ones never run, and the tasks of a key run in order, whatever else happens.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t, kinds)
		enders := rapid.SliceOfN(rapid.SampledFrom([]string{"close", "shutdown", "impatient", "from a task"}), 0, 3).Draw(t, "enders")
		const producers, tasks = 3, 150
		var wg, ends sync.WaitGroup
		for p := range producers {
			wg.Go(func() { tr.produce(p, tasks) })
		}
		for _, how := range enders {
			ends.Go(func() { tr.end(how) })
		}
		testwait.Return(t, wg.Wait)
		testwait.Return(t, ends.Wait)
		if err := tr.e.Shutdown(background); err != nil {
			tr.bad("Shutdown: %v", err)
		}
		close(tr.gate)
		if len(enders) == 0 && tr.o.Policy != workerpool.DropOldest && tr.e.Stats().Dropped > 0 {
			tr.bad("dropped %d without a reason", tr.e.Stats().Dropped)
		}
		tr.settle(t)
	})
}

// end ends the executor after a number of tasks.
func (tr *trial) end(how string) {
	rnd := rand.New(rand.NewPCG(tr.seed, 99))
	for range rnd.IntN(2000) {
		runtime.Gosched()
	}
	switch how {
	case "close":
		_ = tr.e.Close()
	case "shutdown":
		_ = tr.e.Shutdown(background)
	case "impatient":
		ctx, cancel := context.WithTimeout(background, 20*time.Microsecond)
		defer cancel()
		_ = tr.e.Shutdown(ctx)
	case "from a task":
		j := &job{key: 77}
		f := func() {
			j.ran.Add(1)
			_ = tr.e.Close()
		}
		err := tr.e.TrySubmit(j.key, f)
		j.accepted = err == nil
		if err == nil {
			tr.accepted.Add(1)
		} else {
			tr.refused.Add(1)
		}
		tr.mu.Lock()
		tr.tasks = append(tr.tasks, j)
		tr.mu.Unlock()
	}
}

// TestOrder checks the order of keys on executors that keep one, without closing them. Then no accepted task is missing either.
func TestOrder(t *testing.T) {
	var ordered []kind
	for _, k := range kinds {
		if k.ordered {
			ordered = append(ordered, k)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t, ordered)
		if tr.o.Policy != workerpool.Wait {
			tr.o.Policy = workerpool.Wait
			_ = tr.e.Close()
			tr.o.WaitTimeout = -1
			tr.e = tr.k.make(&tr.o)
		}
		var wg sync.WaitGroup
		for p := range 4 {
			wg.Go(func() { tr.produce(p, 200) })
		}
		testwait.Return(t, wg.Wait)
		if err := tr.e.Shutdown(background); err != nil {
			tr.bad("Shutdown: %v", err)
		}
		if dropped := tr.e.Stats().Dropped; dropped > 0 {
			tr.bad("%d dropped", dropped)
		}
		tr.settle(t)
	})
}
