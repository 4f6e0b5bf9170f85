package loadtest

import (
	"slices"
	"testing"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
)

// The problems mention deliveries that the server announced to have left out.
func TestLeftOutIsAProblem(t *testing.T) {
	spec := Spec{}.withDefaults()
	r := &run{spec: spec, publisher: newPublisher(newPlan(spec), nil, nil)}
	const want = "the server reported 3 deliveries as skipped"
	if got := r.allProblems(&workerResult{Missing: delivery.Missed{Announced: 3}}); !slices.Contains(got, want) {
		t.Errorf("problems %q lack %q", got, want)
	}
	if got := r.allProblems(&workerResult{}); len(got) != 0 {
		t.Errorf("nothing was left out, but there are problems: %q", got)
	}
}
