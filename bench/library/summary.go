package main

import (
	"slices"
)

// spread is a median and what it is the median of ranges from and to.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newSpread(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	median := v[len(v)/2]
	if len(v)%2 == 0 {
		median = (v[len(v)/2-1] + median) / 2
	}
	return spread{Median: median, Min: v[0], Max: v[len(v)-1]}
}

// of collects a figure of each sample.
func of(samples []sample, figure func(*sample) float64) spread {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = figure(&samples[i])
	}
	return newSpread(values)
}

// summary is what the rounds of a server in a cell come to. Times are in milliseconds.
type summary struct {
	Server string `json:"server"`
	Rate   spread `json:"rate"`
	CPU    spread `json:"cpu"`
	Ratio  spread `json:"ratio"` // of CPU, to that of the limit in the same round; zero when it was not measured
	P50    spread `json:"p50"`
	P99    spread `json:"p99"`
	P999   spread `json:"p999"`
	Max    spread `json:"max"`
	Allocs spread `json:"allocs"`
}

// summarize sums up the samples of a cell, one row for each server.
func summarize(samples []sample, servers []string) []summary {
	byServer := make(map[string][]sample)
	for _, s := range samples {
		byServer[s.Server] = append(byServer[s.Server], s)
	}
	base := byServer[limit]
	rows := make([]summary, 0, len(servers))
	for _, server := range servers {
		mine := byServer[server]
		row := summary{
			Server: server,
			Rate:   of(mine, func(s *sample) float64 { return s.Rate }),
			CPU:    of(mine, func(s *sample) float64 { return s.CPU }),
			P50:    of(mine, func(s *sample) float64 { return float64(s.Latency.P50) / 1e6 }),
			P99:    of(mine, func(s *sample) float64 { return float64(s.Latency.P99) / 1e6 }),
			P999:   of(mine, func(s *sample) float64 { return float64(s.Latency.P999) / 1e6 }),
			Max:    of(mine, func(s *sample) float64 { return float64(s.Latency.Max) / 1e6 }),
			Allocs: of(mine, func(s *sample) float64 { return s.Allocs }),
		}
		row.Ratio = newSpread(ratios(mine, base))
		rows = append(rows, row)
	}
	return rows
}

// ratios divides the CPU of each sample by that of the limit in the same round.
func ratios(mine, base []sample) []float64 {
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
