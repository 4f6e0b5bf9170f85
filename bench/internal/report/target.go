package report

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/measure"
)

// Target is a promise and what became of it.
type Target struct {
	Server   string `json:"server"`
	Target   string `json:"target"`
	Measured string `json:"measured"`
	Met      string `json:"met"` // yes, no, or no but within the spread of the rounds
}

// The verdicts. A median that is over its bound while the best round is not may be the machine's fault.
const (
	Yes   = "yes"
	No    = "no"
	Noise = "no, within the spread"
)

// Verdict says whether a spread keeps below a bound.
func Verdict(s measure.Spread, bound float64) string {
	switch {
	case s.Median <= bound:
		return Yes
	case s.Min <= bound:
		return Noise
	default:
		return No
	}
}

// Targets is the table of targets.
func Targets(targets []Target) *Table {
	t := &Table{Title: "targets", Head: []string{"server", "target", "measured", "met"}}
	met := 0
	for _, g := range targets {
		if g.Met == Yes {
			met++
		}
		t.Add(g.Server, g.Target, g.Measured, g.Met)
	}
	t.Note = fmt.Sprintf("%d of %d are met.", met, len(targets))
	return t
}
