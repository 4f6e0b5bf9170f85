package load

import (
	"slices"

	"github.com/sluice-push/sluice/bench/internal/measure"
)

// Summary is what the rounds of a server in a cell come to.
type Summary struct {
	Server   string            `json:"server"`
	Rate     measure.Spread    `json:"rate"`
	CPU      measure.Spread    `json:"cpu"`
	Ratio    measure.Spread    `json:"ratio"` // of CPU to that of the limit in the same round; zero when that was not measured
	Allocs   measure.Spread    `json:"allocs"`
	GC       measure.Spread    `json:"gc"`
	Resident measure.Spread    `json:"resident"`
	Latency  measure.Quantiles `json:"latency_ms"`
	Others   measure.Quantiles `json:"others_ms"` // see Load
}

// Summarize sums up the samples of a cell, one row for each server, in the order of servers.
func Summarize(samples []Sample, servers []string) []Summary {
	byServer := make(map[string][]Sample)
	for _, s := range samples {
		byServer[s.Server] = append(byServer[s.Server], s)
	}
	rows := make([]Summary, 0, len(servers))
	for _, server := range servers {
		mine := byServer[server]
		rows = append(rows, Summary{
			Server:   server,
			Rate:     measure.Over(mine, func(s *Sample) float64 { return s.Rate }),
			CPU:      measure.Over(mine, func(s *Sample) float64 { return s.CPU }),
			Ratio:    measure.NewSpread(ratios(mine, byServer[Limit])),
			Allocs:   measure.Over(mine, func(s *Sample) float64 { return s.Allocs }),
			GC:       measure.Over(mine, func(s *Sample) float64 { return s.GC }),
			Resident: measure.Over(mine, func(s *Sample) float64 { return float64(s.Resident) }),
			Latency:  measure.NewQuantiles(mine, func(s *Sample) *measure.Latency { return &s.Latency }),
			Others:   measure.NewQuantiles(mine, func(s *Sample) *measure.Latency { return &s.Others }),
		})
	}
	return rows
}

// ratios divides the CPU of each sample by that of the limit in the same round.
func ratios(mine, base []Sample) []float64 {
	byRound := make(map[int]float64)
	for _, s := range base {
		byRound[s.Round] = s.CPU
	}
	var all []float64
	for _, s := range mine {
		if cpu := byRound[s.Round]; cpu > 0 {
			all = append(all, s.CPU/cpu)
		}
	}
	return all
}

// Find returns the row of a server, or nil.
func Find(rows []Summary, server string) *Summary {
	if i := slices.IndexFunc(rows, func(s Summary) bool { return s.Server == server }); i >= 0 {
		return &rows[i]
	}
	return nil
}
