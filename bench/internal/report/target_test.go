package report_test

import (
	"testing"

	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{[]float64{1, 2, 3}, "yes"},
		{[]float64{2, 2.1, 3}, "no, within the spread"},
		{[]float64{2.1, 2.2}, "no"},
	} {
		if got := report.Verdict(measure.NewSpread(tt.values), 2); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.values, got, tt.want)
		}
	}
}
