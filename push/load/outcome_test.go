package load

import (
	"slices"
	"testing"
)

// What a server says that it left out is among the problems.
func TestLeftOutIsAProblem(t *testing.T) {
	spec := Spec{}.withDefaults()
	r := &run{spec: spec, publisher: newPublisher(newPlan(spec), nil, nil)}
	const want = "the server said that it left out 3 deliveries"
	if got := r.worthKnowing(&share{Missing: lostCount{Told: 3}}); !slices.Contains(got, want) {
		t.Errorf("problems %q lack %q", got, want)
	}
	if got := r.worthKnowing(&share{}); len(got) != 0 {
		t.Errorf("nothing was left out, but there are problems: %q", got)
	}
}
