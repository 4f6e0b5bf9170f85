package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-push/sluice/rpc"
)

// A Request that is used again makes its frame without allocating, the deadline included.
func TestRequestAllocatesNothing(t *testing.T) {
	c := newPlace(t, nil).dial(&rpc.ConnOptions{Form: rpc.Raw})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r := &rpc.Request{Method: "Echo", Metadata: []rpc.Pair{{Key: "key", Value: "value"}}}
	var in any = []byte("a short text")
	if n := testing.AllocsPerRun(10_000, func() {
		if err := r.Prepare(ctx, c, in); err != nil {
			t.Fatal(err)
		}
	}); n >= 0.5 { // the goroutines of the connection may allocate a little meanwhile
		t.Errorf("%v allocations", n)
	}
}
