package atomicany_test

import (
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/atomicany"
	"github.com/sluice-push/sluice/internal/testwait"
)

// What was kept last is there, whatever its type was.
func TestValue(t *testing.T) {
	var v atomicany.Value
	if got := v.Load(); got != nil {
		t.Errorf("at first %v", got)
	}
	for _, next := range []any{nil, 1, "two", nil, 3.0, 4} {
		v.Store(next)
		if got := v.Load(); got != next {
			t.Errorf("%v instead of %v", got, next)
		}
	}
}

// A reader sees nothing but what was kept, and in the end the last of what one goroutine after another has kept.
func TestConcurrently(t *testing.T) {
	type pair struct{ a, b int }
	for range 1000 {
		var v atomicany.Value
		var wg sync.WaitGroup
		for i := 1; i <= 3; i++ {
			wg.Go(func() { v.Store(pair{i, -i}) })
			wg.Go(func() {
				if got, ok := v.Load().(pair); ok && (got.a < 1 || got.a > 3 || got.b != -got.a) {
					t.Errorf("read %v", got)
				}
			})
		}
		testwait.Return(t, wg.Wait)
		if _, ok := v.Load().(pair); !ok {
			t.Fatalf("%v is left", v.Load())
		}
		if v.Store("last"); v.Load() != "last" {
			t.Fatalf("%v is left", v.Load())
		}
	}
}

// The first value takes no memory.
func TestFirst(t *testing.T) {
	held, what := make([]atomicany.Value, 101), new(int)
	n := 0
	if allocs := testing.AllocsPerRun(100, func() { held[n].Store(what); n++ }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
