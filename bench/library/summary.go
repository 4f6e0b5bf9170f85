package main

import "slices"

// spread is a median, and from where to where the values reach.
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

// quantiles are spreads over rounds, in milliseconds.
type quantiles struct {
	P50  spread `json:"p50"`
	P99  spread `json:"p99"`
	P999 spread `json:"p999"`
	Max  spread `json:"max"`
}

// summary is what the rounds of a server in a cell come to.
type summary struct {
	Server  string    `json:"server"`
	Rate    spread    `json:"rate"`
	CPU     spread    `json:"cpu"`
	Ratio   spread    `json:"ratio"` // of CPU to that of the limit in the same round; zero when that was not measured
	Allocs  spread    `json:"allocs"`
	Latency quantiles `json:"latency_ms"`
	Others  quantiles `json:"others_ms"` // of the messages whose handler did not sleep
}

// summarize sums up the samples of a cell, one row for each server, in the order of servers.
func summarize(samples []sample, servers []string) []summary {
	byServer := make(map[string][]sample)
	for _, s := range samples {
		byServer[s.Server] = append(byServer[s.Server], s)
	}
	rows := make([]summary, 0, len(servers))
	for _, server := range servers {
		mine := byServer[server]
		rows = append(rows, summary{
			Server:  server,
			Rate:    over(mine, func(s *sample) float64 { return s.Rate }),
			CPU:     over(mine, func(s *sample) float64 { return s.CPU }),
			Ratio:   newSpread(ratios(mine, byServer[limit])),
			Allocs:  over(mine, func(s *sample) float64 { return s.Allocs }),
			Latency: newQuantiles(mine, func(s *sample) *latency { return &s.Latency }),
			Others:  newQuantiles(mine, func(s *sample) *latency { return &s.Others }),
		})
	}
	return rows
}

// over collects a figure of each sample.
func over(samples []sample, figure func(*sample) float64) spread {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = figure(&samples[i])
	}
	return newSpread(values)
}

func newQuantiles(samples []sample, of func(*sample) *latency) quantiles {
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return quantiles{
		P50:  over(samples, func(s *sample) float64 { return ms(of(s).P50) }),
		P99:  over(samples, func(s *sample) float64 { return ms(of(s).P99) }),
		P999: over(samples, func(s *sample) float64 { return ms(of(s).P999) }),
		Max:  over(samples, func(s *sample) float64 { return ms(of(s).Max) }),
	}
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
