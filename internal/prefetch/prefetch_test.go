package prefetch_test

import (
	"testing"

	"github.com/sluice-push/sluice/internal/prefetch"
)

// Whatever it is asked for is as it was, and nothing is not an error.
func TestValue(t *testing.T) {
	p := new([200]byte)
	p[0], p[199] = 1, 2
	for _, v := range []any{nil, (*int)(nil), p, 7, "text", struct{}{}} {
		prefetch.Value(v)
		prefetch.Wide(v)
	}
	if p[0] != 1 || p[199] != 2 {
		t.Errorf("changed to %v", p)
	}
	if n := testing.AllocsPerRun(100, func() { prefetch.Value(p); prefetch.Wide(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
