package session_test

import (
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// Load returns the value that was stored last, whatever its type.
func TestAnyValue(t *testing.T) {
	var v session.AnyValue
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

// A reader sees only values that were stored, and after all goroutines have ended the last one.
func TestAnyValueConcurrently(t *testing.T) {
	type pair struct{ a, b int }
	for range 1000 {
		var v session.AnyValue
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

// The first value allocates nothing.
func TestAnyValueFirst(t *testing.T) {
	held, what := make([]session.AnyValue, 101), new(int)
	n := 0
	if allocs := testing.AllocsPerRun(100, func() { held[n].Store(what); n++ }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
