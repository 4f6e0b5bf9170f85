package main

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// The bounds.
const (
	cpuBound    = 1.15   // CPU against the limit with one channel
	lastBound   = 1.2    // time until the last subscriber has it, likewise
	heldBound   = 0.98   // of the rate that was asked for
	hundredTail = 100.0  // p99 in milliseconds, with 100,000 deliveries a second
	closedBound = 260000 // deliveries a second on one processor
	marketTail  = 20.0   // p99 in milliseconds
	marketBound = 8.0    // CPU µs a delivery
	memoryBound = 3072   // bytes of a subscriber
	stormBound  = 900.0  // milliseconds until all that were cut have all
)

// judge compares what was measured with what was promised. What was not measured has no row.
func judge(r *result, cells []cell) []report.Target {
	var all []report.Target
	for _, mine := range ours() {
		for i := range cells {
			c := &cells[i]
			if c.Name == "memory" {
				all = append(all, judgeMemory(c, r.Memory[c.Name], mine)...)
			} else if c.kind == storms {
				all = append(all, judgeStorms(c, r.Storms, mine)...)
			} else if row := load.Find(r.Cells[c.Name], mine); row != nil {
				all = append(all, c.judge(row)...)
			}
		}
	}
	return append(all, judgeLinks(r.Links)...)
}

// judge is judge for one of our servers in one cell.
func (c *cell) judge(mine *load.Summary) []report.Target {
	var all []report.Target
	add := func(what, measured string, s measure.Spread, bound float64) {
		all = append(all, report.Target{
			Server: mine.Server, Target: c.Name + ": " + what, Measured: measured, Met: report.Verdict(s, bound),
		})
	}
	switch c.Name {
	case "one10k", "one15k":
		if mine.Ratio.Median == 0 {
			break
		}
		add(fmt.Sprintf("CPU at most %.2f × the limit", cpuBound), mine.Ratio.String()+" ×", mine.Ratio, cpuBound)
		add(fmt.Sprintf("last at most %.1f × the limit", lastBound), mine.Delay.String()+" ×", mine.Delay, lastBound)
	case "hundred":
		asked := float64(c.Rate * c.Conns)
		add("as fast as asked", mine.Rate.Times(1e-3).String()+" thousand/s", over(asked*heldBound, mine.Rate), 1)
		p99 := mine.Latency.P99
		add(fmt.Sprintf("p99 below %.0f ms", hundredTail), p99.String()+" ms", p99, hundredTail)
	case "closed32":
		add(fmt.Sprintf("at least %d thousand/s", closedBound/1000), mine.Rate.Times(1e-3).String()+" thousand/s", over(closedBound, mine.Rate), 1)
	case "market2000":
		p99 := mine.Latency.P99
		add(fmt.Sprintf("p99 below %.0f ms", marketTail), p99.String()+" ms", p99, marketTail)
		add(fmt.Sprintf("at most %.0f µs a delivery", marketBound), mine.CPU.String()+" µs", mine.CPU, marketBound)
	}
	return all
}

// over divides a figure by a spread: at most 1 where the spread is not below the figure.
func over(figure float64, s measure.Spread) measure.Spread {
	return measure.Spread{Median: figure, Min: figure, Max: figure}.Against(s)
}

// judgeMemory judges what subscribers cost in one of our servers.
func judgeMemory(c *cell, prints []footprint, server string) []report.Target {
	for _, p := range prints {
		if p.Server != server {
			continue
		}
		s := p.at(memoryConns)
		v := s.Collected
		return []report.Target{{
			Server: server, Target: fmt.Sprintf("%s: at most %d B a subscriber of %d", c.Name, memoryBound, s.Subscribers),
			Measured: fmt.Sprintf("%.0f B", v), Met: report.Verdict(measure.Spread{Median: v, Min: v, Max: v}, memoryBound),
		}}
	}
	return nil
}
