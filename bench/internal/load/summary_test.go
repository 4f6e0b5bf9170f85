package load_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
)

// Of several limits the cheapest counts for CPU and the fastest for time, in each round.
func TestSummarize(t *testing.T) {
	sample := func(server string, round int, cpu float64, last int64) load.Sample {
		return load.Sample{Server: server, Round: round, CPU: cpu, Others: measure.Latency{P50: last}}
	}
	rows := load.Summarize([]load.Sample{
		sample("c1", 1, 4, 100), sample("c2", 1, 5, 50), sample("mine", 1, 8, 100),
		sample("c1", 2, 10, 100), sample("c2", 2, 8, 200), sample("mine", 2, 8, 300),
	}, []string{"c1", "c2", "mine"})
	mine := load.Find(rows, "mine")
	if mine.Ratio != (measure.Spread{Median: 1.5, Min: 1, Max: 2}) || mine.Delay != (measure.Spread{Median: 2.5, Min: 2, Max: 3}) {
		t.Errorf("%+v, %+v", mine.Ratio, mine.Delay)
	}
	for name, want := range map[string]bool{"c": true, "c1": true, "c12": true, "coder": false, "sluice": false, "": false} {
		if load.IsLimit(name) != want {
			t.Errorf("%q is a limit: %v", name, !want)
		}
	}
}
