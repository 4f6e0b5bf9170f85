package workerpool_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/workerpool"
)

// A ring behaves as a slice to whose end tasks are appended and from whose front tasks are taken.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r workerpool.Ring
		var model []int
		pushed, popped := 0, 0
		push := func(n int) {
			for range n {
				i := pushed
				r.Push(func() { popped = i })
				model = append(model, i)
				pushed++
			}
		}
		pop := func(t *rapid.T, n int) {
			for range min(n, len(model)) {
				r.Pop()()
				if popped != model[0] {
					t.Fatalf("popped %d, want %d", popped, model[0])
				}
				model = model[1:]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if r.Len() != len(model) {
					t.Fatalf("length %d, want %d", r.Len(), len(model))
				}
				if size := r.Places(); size&(size-1) != 0 || r.Len() == 0 && size > workerpool.KeptRing {
					t.Fatalf("%d places for %d", size, r.Len())
				}
			},
			"push": func(t *rapid.T) { push(rapid.IntRange(1, 5000).Draw(t, "n")) },
			"few":  func(*rapid.T) { push(1) },
			"pop":  func(t *rapid.T) { pop(t, rapid.IntRange(1, 5000).Draw(t, "n")) },
			"turn": func(t *rapid.T) { // a light load
				for range 20_000 {
					push(1)
					pop(t, 1)
				}
				if len(model) == 0 && r.Places() > workerpool.MinRing {
					t.Fatalf("%d places are kept", r.Places())
				}
			},
			"clear": func(t *rapid.T) {
				if n := r.Clear(); n != len(model) || r.Places() != 0 {
					t.Fatalf("cleared %d of %d, %d places are left", n, len(model), r.Places())
				}
				model = nil
			},
		})
	})
}

// The owner takes from its local queue while others steal from it: each task goes to exactly one of them.
func TestLocalQueue(t *testing.T) {
	const rounds, thieves = 300, 3
	var mu sync.Mutex
	var h workerpool.LocalQueue
	var ran [rounds * workerpool.BatchSize]atomic.Int32
	var dropped, total atomic.Int64
	var ring workerpool.Ring
	var over atomic.Bool
	var wg sync.WaitGroup
	for i := range thieves {
		wg.Go(func() {
			var mine workerpool.LocalQueue
			for !over.Load() {
				mu.Lock()
				if i == 0 {
					dropped.Add(int64(h.Drop()))
				} else {
					h.Steal((h.Left()+1)/2, &mine)
				}
				mu.Unlock()
				for task := mine.Take(); task != nil; task = mine.Take() {
					task()
				}
				runtime.Gosched()
			}
		})
	}
	for round := range rounds {
		for i := range workerpool.BatchSize {
			ring.Push(func() {
				ran[round*workerpool.BatchSize+i].Add(1)
				total.Add(1)
				runtime.Gosched()
			})
		}
		mu.Lock()
		h.Fill(&ring, workerpool.BatchSize)
		mu.Unlock()
		for task := h.Take(); task != nil; task = h.Take() {
			task()
		}
	}
	over.Store(true)
	testwait.Return(t, wg.Wait)
	for i := range ran {
		if ran[i].Load() > 1 {
			t.Fatalf("task %d ran %d times", i, ran[i].Load())
		}
	}
	if total.Load()+dropped.Load() != int64(len(ran)) {
		t.Errorf("%d ran, %d were dropped, of %d", total.Load(), dropped.Load(), len(ran))
	}
}
