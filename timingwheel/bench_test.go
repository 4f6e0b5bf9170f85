package timingwheel_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

// many is the number of timers in each benchmark: as many as a busy server has connections.
const many = 100_000

// conn is a connection with a deadline.
type conn struct {
	seen atomic.Int64
	idle timingwheel.Node[*conn]
}

func newConns() []conn {
	conns := make([]conn, many)
	for i := range conns {
		conns[i].idle.Value = &conns[i]
	}
	return conns
}

// BenchmarkActivity measures the cost of moving the deadline of a connection for a message. A thousand connections alternate, so that they are
// in the cache, as a connection is that has just been read from. The other timers are in the wheel as well.
func BenchmarkActivity(b *testing.B) {
	const timeout, active = 30 * time.Second, 1000
	b.Run("lazy", func(b *testing.B) { // the present time is known, the wheel is not touched
		conns, now, i := newConns(), time.Now().UnixNano(), 0
		b.ReportAllocs()
		for b.Loop() {
			conns[i].seen.Store(now)
			i = (i + 1) % active
		}
	})
	b.Run("Schedule", func(b *testing.B) { // the present time is known
		conns, w, now, i := newConns(), timingwheel.NewWheel[*conn](0, 0), int64(0), 0
		for i := range conns {
			w.Schedule(&conns[i].idle, int64(i)*int64(timeout)/many)
		}
		b.ReportAllocs()
		for b.Loop() {
			w.Schedule(&conns[i].idle, now+int64(timeout))
			now += int64(10 * time.Microsecond)
			i = (i + 1) % active
		}
	})
	b.Run("Timers.Reset", func(b *testing.B) {
		timers, i := timingwheel.New(nil), 0
		defer timers.Close()
		all := make([]*timingwheel.Timer, many)
		for i := range all {
			all[i] = timers.AfterFunc(timeout, func() {})
		}
		b.ReportAllocs()
		for b.Loop() {
			all[i].Reset(timeout)
			i = (i + 1) % active
		}
	})
	b.Run("time.Timer.Reset", func(b *testing.B) {
		all, i := make([]*time.Timer, many), 0
		for i := range all {
			all[i] = time.AfterFunc(timeout, func() {})
		}
		b.ReportAllocs()
		for b.Loop() {
			all[i].Reset(timeout)
			i = (i + 1) % active
		}
		for _, t := range all {
			t.Stop()
		}
	})
	b.Run("time.Since", func(b *testing.B) { // the share of reading the clock in a Reset
		start := time.Now()
		for b.Loop() {
			_ = time.Since(start)
		}
	})
}

// BenchmarkResetParallel measures the cost of the single lock under contention.
func BenchmarkResetParallel(b *testing.B) {
	b.Run("Timers", func(b *testing.B) {
		timers := timingwheel.New(nil)
		defer timers.Close()
		b.RunParallel(func(pb *testing.PB) {
			t := timers.AfterFunc(time.Minute, func() {})
			for pb.Next() {
				t.Reset(time.Minute)
			}
		})
	})
	b.Run("time", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			t := time.AfterFunc(time.Minute, func() {})
			defer t.Stop()
			for pb.Next() {
				t.Reset(time.Minute)
			}
		})
	})
}

// BenchmarkAdvance measures the cost of a tick; ns/node is the cost for each due node.
func BenchmarkAdvance(b *testing.B) {
	b.Run("none of 100k due", func(b *testing.B) { // each tick finds 24 of them in its slot, due in later rounds
		conns, w := newConns(), timingwheel.NewWheel[*conn](0, 0)
		for i := range conns {
			w.Schedule(&conns[i].idle, int64(1000*time.Hour)+int64(i)*int64(time.Millisecond))
		}
		now := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			w.Advance(now, nil)
			now += int64(10 * time.Millisecond)
		}
	})
	b.Run("all of 100k due and scheduled again", func(b *testing.B) {
		conns, w := newConns(), timingwheel.NewWheel[*conn](0, 0)
		for i := range conns {
			w.Schedule(&conns[i].idle, int64(time.Second))
		}
		now := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			now += int64(time.Second)
			w.Advance(now, func(n *timingwheel.Node[*conn]) { w.Schedule(n, now+int64(time.Second)) })
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/many, "ns/node")
	})
	b.Run("a second of 100k that are due in turn", func(b *testing.B) { // 3333 of those with a timeout of 30 s
		conns, w := newConns(), timingwheel.NewWheel[*conn](0, 0)
		for i := range conns {
			w.Schedule(&conns[i].idle, int64(i)*int64(30*time.Second)/many)
		}
		now, due := int64(0), 0
		b.ReportAllocs()
		for b.Loop() {
			for range 100 {
				now += int64(10 * time.Millisecond)
				w.Advance(now, func(n *timingwheel.Node[*conn]) {
					due++
					w.Schedule(n, n.At()+int64(30*time.Second))
				})
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(due), "ns/node")
	})
	b.Run("100k functions due in one tick", func(b *testing.B) {
		clock := timingwheel.NewFakeClock(epoch)
		timers := timingwheel.New(&timingwheel.Options{Clock: clock})
		defer timers.Close()
		all := make([]*timingwheel.Timer, many)
		var ran atomic.Int64
		for i := range all {
			all[i] = timers.AfterFunc(time.Second, func() { ran.Add(1) })
		}
		for b.Loop() {
			clock.Advance(2 * time.Second)
			b.StopTimer()
			for _, t := range all {
				t.Reset(time.Second)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/many, "ns/timer")
	})
}

// BenchmarkNext measures the cost of Next, which a loop calls before it sleeps.
func BenchmarkNext(b *testing.B) {
	w, n := timingwheel.NewWheel[int](0, 0), new(node)
	w.Schedule(n, int64(30*time.Second))
	for b.Loop() {
		w.Next()
	}
}

// BenchmarkMemory reports the bytes that a timer takes, besides those of its function; the time means nothing.
func BenchmarkMemory(b *testing.B) {
	timers := timingwheel.New(nil)
	defer timers.Close()
	wheel := timingwheel.NewWheel[*conn](0, 0)
	nothing := func() {}
	for _, c := range []struct {
		name string
		make func() any
	}{
		{"owner without Node", func() any { return new(atomic.Int64) }},
		{"owner with Node", func() any {
			c := &conn{}
			c.idle.Value = c
			wheel.Schedule(&c.idle, int64(time.Hour))
			return c
		}},
		{"AfterFunc", func() any { return timers.AfterFunc(time.Hour, nothing) }},
		{"NewTimer", func() any { return timers.NewTimer(time.Hour) }},
		{"time.AfterFunc", func() any { return time.AfterFunc(time.Hour, nothing) }},
		{"time.NewTimer", func() any { return time.NewTimer(time.Hour) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			all := make([]any, many)
			var bytes uint64
			for b.Loop() {
				before := heap()
				for i := range all {
					all[i] = c.make()
				}
				bytes = heap() - before
				for _, t := range all {
					switch t := t.(type) {
					case *conn:
						wheel.Cancel(&t.idle)
					case interface{ Stop() bool }:
						t.Stop()
					}
				}
				clear(all)
			}
			b.ReportMetric(float64(bytes)/many, "B/timer")
		})
	}
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
