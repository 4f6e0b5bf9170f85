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
	Ratio    measure.Spread    `json:"ratio"`  // of CPU to that of the cheapest limit in the same round; zero when none was measured
	Before   measure.Spread    `json:"before"` // of CPU to that of the same server of the commit before in the same round, or zero
	Allocs   measure.Spread    `json:"allocs"`
	GC       measure.Spread    `json:"gc"`
	Resident measure.Spread    `json:"resident"`
	Latency  measure.Quantiles `json:"latency_ms"`
	Others   measure.Quantiles `json:"others_ms"`    // see Load
	Delay    measure.Spread    `json:"others_ratio"` // of the median of Others to that of the fastest limit in the same round, or zero
}

// Summarize sums up the samples of a cell, one row for each server, in the order of servers.
func Summarize(samples []Sample, servers []string) []Summary {
	byServer := make(map[string][]Sample)
	var limits []Sample
	for _, s := range samples {
		byServer[s.Server] = append(byServer[s.Server], s)
		if IsLimit(s.Server) {
			limits = append(limits, s)
		}
	}
	cpu := func(s *Sample) float64 { return s.CPU }
	delay := func(s *Sample) float64 { return float64(s.Others.P50) }
	rows := make([]Summary, 0, len(servers))
	for _, server := range servers {
		mine := byServer[server]
		rows = append(rows, Summary{
			Server:   server,
			Rate:     measure.Over(mine, func(s *Sample) float64 { return s.Rate }),
			CPU:      measure.Over(mine, cpu),
			Ratio:    ratios(mine, limits, cpu),
			Before:   ratios(mine, byServer[server+AtBefore], cpu),
			Allocs:   measure.Over(mine, func(s *Sample) float64 { return s.Allocs }),
			GC:       measure.Over(mine, func(s *Sample) float64 { return s.GC }),
			Resident: measure.Over(mine, func(s *Sample) float64 { return float64(s.Resident) }),
			Latency:  measure.NewQuantiles(mine, func(s *Sample) *measure.Latency { return &s.Latency }),
			Others:   measure.NewQuantiles(mine, func(s *Sample) *measure.Latency { return &s.Others }),
			Delay:    ratios(mine, limits, delay),
		})
	}
	return rows
}

// ratios divides a figure of each sample by the least of the limits in the same round.
func ratios(mine, limits []Sample, figure func(*Sample) float64) measure.Spread {
	least := make(map[int]float64)
	for i := range limits {
		s := &limits[i]
		if v := figure(s); v > 0 && (least[s.Round] == 0 || v < least[s.Round]) {
			least[s.Round] = v
		}
	}
	var all []float64
	for i := range mine {
		if v := least[mine[i].Round]; v > 0 {
			all = append(all, figure(&mine[i])/v)
		}
	}
	return measure.NewSpread(all)
}

// Find returns the row of a server, or nil.
func Find(rows []Summary, server string) *Summary {
	if i := slices.IndexFunc(rows, func(s Summary) bool { return s.Server == server }); i >= 0 {
		return &rows[i]
	}
	return nil
}
