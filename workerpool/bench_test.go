package workerpool_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/workerpool"
)

// benchWorkers is the number of workers of each scheme, whatever the number of processors.
const benchWorkers = 4

// scheme is a way to run tasks; end returns when all tasks have run.
type scheme struct {
	name  string
	start func() (submit func(key uint64, task func()), end func())
}

// ended is an executor that implements scheme.
type ended interface {
	workerpool.Executor
	shutdowner
}

func over(name string, build func(*workerpool.Options) ended) scheme {
	return scheme{name, func() (func(uint64, func()), func()) {
		e := build(&workerpool.Options{Workers: benchWorkers})
		return func(key uint64, task func()) {
				if err := e.Submit(key, task); err != nil {
					panic(err)
				}
			}, func() {
				if err := e.Shutdown(background); err != nil {
					panic(err)
				}
			}
	}}
}

// channels is the alternative without this package: a number of buffered channels, with workers for each.
func channels(n, workers int) func() (func(uint64, func()), func()) {
	return func() (func(uint64, func()), func()) {
		var wg sync.WaitGroup
		all := make([]chan func(), n)
		for i := range all {
			all[i] = make(chan func(), workerpool.DefaultQueue)
			for range workers {
				wg.Go(func() {
					for task := range all[i] {
						task()
					}
				})
			}
		}
		return func(key uint64, task func()) { all[key%uint64(n)] <- task }, func() {
			for _, c := range all {
				close(c)
			}
			wg.Wait()
		}
	}
}

var schemes = []scheme{
	{"inline", func() (func(uint64, func()), func()) { return func(_ uint64, task func()) { task() }, func() {} }},
	{"go", func() (func(uint64, func()), func()) {
		var wg sync.WaitGroup
		return func(_ uint64, task func()) { wg.Go(task) }, wg.Wait
	}},
	{"channel", channels(1, benchWorkers)},
	{"channel per worker", channels(benchWorkers, 1)},
	over("KeyedFixed", func(o *workerpool.Options) ended { return workerpool.NewKeyedFixed(o) }),
	over("Shared", func(o *workerpool.Options) ended { return workerpool.NewShared(o) }),
	over("RoundRobin", func(o *workerpool.Options) ended { return workerpool.NewRoundRobin(o) }),
	over("Elastic", func(o *workerpool.Options) ended { return workerpool.NewElastic(o) }),
	over("Strand", func(o *workerpool.Options) ended { return workerpool.NewStrand(o) }),
}

// spin keeps a processor busy for about n × 0.25 ns.
func spin(n int) {
	x := uint64(n)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink.Store(x)
}

var sink atomic.Uint64

// halfMicrosecond is the argument of spin for 0.5 µs.
var halfMicrosecond = sync.OnceValue(func() int {
	const rounds = 20_000_000
	start := cpuTime()
	spin(rounds)
	return int(500 * rounds / max(1, (cpuTime()-start).Nanoseconds()))
})

// BenchmarkSaturated measures the cost of a task for saturated workers: two goroutines submit tasks of a thousand keys as fast as they can.
// ns/task is the elapsed time; overhead-ns/task is the processor time of all goroutines beyond that of the task itself.
func BenchmarkSaturated(b *testing.B) {
	for _, work := range []struct {
		name string
		task func(n int) func()
		ns   float64
	}{
		{"empty", func(int) func() { return func() {} }, 0},
		{"500ns", func(n int) func() { return func() { spin(n) } }, 500},
	} {
		for _, s := range schemes {
			b.Run(fmt.Sprintf("%s/%s", work.name, s.name), func(b *testing.B) {
				task := work.task(halfMicrosecond())
				submit, end := s.start()
				b.ReportAllocs()
				var producer atomic.Uint64
				b.SetParallelism(max(1, 2/runtime.GOMAXPROCS(0)))
				b.ResetTimer()
				spent := cpuTime()
				b.RunParallel(func(pb *testing.PB) {
					for key := producer.Add(1) << 32; pb.Next(); key++ {
						submit(key%1000, task)
					}
				})
				end()
				n := float64(b.N)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/task")
				b.ReportMetric(float64((cpuTime()-spent).Nanoseconds())/n-work.ns, "overhead-ns/task")
			})
		}
	}
}

// BenchmarkBatch measures the cost of a task if 32 are submitted at once.
func BenchmarkBatch(b *testing.B) {
	type batcher interface {
		SubmitBatch(key uint64, tasks []func()) (int, error)
		shutdowner
	}
	for name, build := range map[string]func(*workerpool.Options) batcher{
		"KeyedFixed": func(o *workerpool.Options) batcher { return workerpool.NewKeyedFixed(o) },
		"Shared":     func(o *workerpool.Options) batcher { return workerpool.NewShared(o) },
		"RoundRobin": func(o *workerpool.Options) batcher { return workerpool.NewRoundRobin(o) },
		"Elastic":    func(o *workerpool.Options) batcher { return workerpool.NewElastic(o) },
		"Strand":     func(o *workerpool.Options) batcher { return workerpool.NewStrand(o) },
	} {
		b.Run(name, func(b *testing.B) {
			tasks := slices.Repeat([]func(){func() {}}, 32)
			e := build(&workerpool.Options{Workers: benchWorkers})
			b.ReportAllocs()
			key := uint64(0)
			for b.Loop() {
				if _, err := e.SubmitBatch(key, tasks); err != nil {
					b.Fatal(err)
				}
				key++
			}
			if err := e.Shutdown(background); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/task")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkPaced measures how long a task waits to begin if all workers are idle. One task is submitted and runs, then the benchmark waits a
// fifth of a millisecond on a timer of the runtime, so that the workers sleep.
func BenchmarkPaced(b *testing.B) {
	for _, s := range schemes {
		b.Run(s.name, func(b *testing.B) {
			submit, end := s.start()
			delays := make([]time.Duration, 0, 1<<16)
			var spent time.Duration
			var submitted time.Time
			began := make(chan time.Duration, 1)
			task := func() { began <- time.Since(submitted) }
			tick := time.NewTicker(200 * time.Microsecond)
			defer tick.Stop()
			key := uint64(0)
			for b.Loop() {
				<-tick.C
				submitted = time.Now()
				submit(key, task)
				spent += time.Since(submitted)
				delays = append(delays, <-began)
				key++
			}
			end()
			slices.Sort(delays)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(len(delays)), "submit-ns")
			b.ReportMetric(float64(delays[len(delays)/2].Nanoseconds()), "start-p50-ns")
			b.ReportMetric(float64(delays[len(delays)*99/100].Nanoseconds()), "start-p99-ns")
		})
	}
}
