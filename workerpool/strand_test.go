package workerpool_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sluice-push/sluice/workerpool"
)

// A key with endless work gives way to others after a burst.
func TestStrandIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 5
		e := workerpool.NewStrand(&workerpool.Options{Workers: 1, Burst: burst})
		release := hold(t, e, 0)
		var order []uint64 // written by the only worker
		for range 200 {
			must(t, e.Submit(1, func() { order = append(order, 1) }))
		}
		for range 3 * burst {
			must(t, e.Submit(2, func() { order = append(order, 2) }))
		}
		must(t, e.Submit(3, func() { order = append(order, 3) }))
		release()
		must(t, e.Shutdown(background))
		expected := fmt.Sprint([]uint64{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1})
		if got := fmt.Sprint(order[:32]); got != expected {
			t.Errorf("order %v, want %v", got, expected)
		}
		if len(order) != 216 {
			t.Errorf("%d ran", len(order))
		}
	})
}

// A key that blocks holds up only itself: its own queue fills, and all other keys go on.
func TestStrandBlocksOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := workerpool.NewStrand(&workerpool.Options{Workers: 2, Queue: 10})
		release := hold(t, e, 1)
		for range 10 {
			must(t, e.Submit(1, func() {}))
		}
		want(t, e.TrySubmit(1, func() {}), workerpool.ErrFull)
		var ran atomic.Int64
		for key := range uint64(3000) {
			must(t, e.Submit(2+key, func() { ran.Add(1) }))
		}
		synctest.Wait()
		if ran.Load() != 3000 || e.Keys() != 1 {
			t.Errorf("%d ran, %d keys left", ran.Load(), e.Keys())
		}
		release()
		synctest.Wait()
		if e.Keys() != 0 {
			t.Errorf("%d keys left", e.Keys())
		}
		must(t, e.Close())
	})
}

// Total bounds all keys together. A submitter that waits for it is admitted, whatever its key, and one that gives up leaves nothing behind.
func TestStrandTotal(t *testing.T) {
	for _, p := range []workerpool.Policy{workerpool.Wait, workerpool.Refuse, workerpool.DropOldest} {
		synctest.Test(t, func(t *testing.T) {
			e := workerpool.NewStrand(&workerpool.Options{Workers: 1, Queue: 20, Total: 40, Policy: p})
			release := hold(t, e, 0)
			var ran atomic.Int64
			for i := range uint64(40) {
				must(t, e.Submit(1+i, func() { ran.Add(1) }))
			}
			want(t, e.TrySubmit(99, func() {}), workerpool.ErrFull)
			want(t, e.Submit(99, func() {}), workerpool.ErrFull) // under Wait after the timeout
			if n := e.Keys(); n != 41 {
				t.Fatalf("%d keys", n)
			}
			waiting := start(func() {
				if p == workerpool.Wait {
					must(t, e.Submit(100, func() { ran.Add(1) }))
				}
			})
			if waiting() != (p != workerpool.Wait) {
				t.Fatal("it waits, or does not")
			}
			if p == workerpool.DropOldest {
				must(t, e.Submit(7, func() { ran.Add(1) })) // this key has a task that can be dropped
			}
			release()
			if !waiting() {
				t.Fatal("it waits on")
			}
			must(t, e.Shutdown(background))
			expected := int64(40)
			if p == workerpool.Wait {
				expected++
			}
			if ran.Load() != expected || e.Keys() != 0 {
				t.Errorf("%d ran, %d keys left", ran.Load(), e.Keys())
			}
		})
	}
}

// A key costs memory only while it has tasks: after a burst of many keys their memory is given back.
func TestStrandGivesMemoryBack(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	e := workerpool.NewStrand(&workerpool.Options{Workers: 1, Total: -1})
	before := heap()
	release := hold(t, e, 0)
	const keys = 100_000
	for key := range uint64(keys) {
		must(t, e.Submit(1+key, func() {}))
	}
	full := heap()
	release()
	must(t, e.Shutdown(background))
	after := heap()
	if full < before+(8<<20) || after > before+(3<<19) {
		t.Errorf("%d KiB before, %d KiB with %d keys, %d KiB after", before>>10, full>>10, keys, after>>10)
	}
	runtime.KeepAlive(e)
}
