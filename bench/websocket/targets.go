package main

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// The bounds. Those against C, and that of memory, are for the loop: a goroutine for each connection has costs of its own.
const (
	loop        = "sluice-loop"
	singleBound = 1.15  // CPU against the limit with one message in flight on each connection
	pipedBound  = 1.3   // with more
	manyBound   = 1.1   // when each message goes to all
	tailBound   = 2.0   // p99 against the limit with more in flight
	idleBound   = 921   // bytes of an idle connection: 0.9 KiB
	allocsBound = 0.005 // allocations a message that are not any: the measurement makes a few itself
)

// judge compares what was measured with what was promised. What was not measured has no row.
func judge(r *compare.Result, cells []cell) []report.Target {
	var all []report.Target
	for _, mine := range rivals() {
		if mine.module != "" {
			continue
		}
		for i := range cells {
			c := &cells[i]
			if c.idle {
				all = append(all, judgeIdle(r.Idle, c.Name, mine.name)...)
			} else if row := load.Find(r.Cells[c.Name], mine.name); row != nil {
				all = append(all, c.judge(row, r.Cells[c.Name])...)
			}
		}
	}
	return all
}

// judge is judge for one of our servers in one cell.
func (c *cell) judge(mine *load.Summary, rows []load.Summary) []report.Target {
	var all []report.Target
	add := func(what, unit string, s measure.Spread, bound float64) {
		all = append(all, report.Target{
			Server: mine.Server, Target: c.Name + ": " + what, Measured: s.String() + unit, Met: report.Verdict(s, bound),
		})
	}
	base := load.Find(rows, load.Limit)
	if bound := c.bound(); base != nil && mine.Server == loop && bound > 0 {
		add(fmt.Sprintf("CPU at most %.2f × C", bound), " ×", mine.Ratio, bound)
	}
	if base != nil && mine.Server == loop && c.InFlight > 1 && c.Kind == load.Echo && c.stream == 0 {
		add(fmt.Sprintf("p99 at most %.0f × C", tailBound), " ×", mine.Latency.P99.Against(base.Latency.P99), tailBound)
	}
	if best := bestPeer(rows, find(mine.Server).http); best != nil {
		add("CPU below "+best.Server+"'s, the best of the others", " ×", mine.CPU.Against(best.CPU), 1)
	}
	if c.Kind != load.Open {
		all = append(all, report.Target{
			Server: mine.Server, Target: c.Name + ": no allocation a message",
			Measured: fmt.Sprintf("%.4f", mine.Allocs.Median), Met: report.Verdict(mine.Allocs, allocsBound),
		})
	}
	return all
}

// bound is that of the loop's CPU against the limit, 0 when there is none.
func (c *cell) bound() float64 {
	switch {
	case c.Kind == load.Open:
		return 0
	case c.Kind == load.Broadcast:
		return manyBound
	case c.InFlight > 1:
		return pipedBound
	default:
		return singleBound
	}
}

// isPeer reports whether a server is somebody else's, and not the limit.
func isPeer(name string) bool { return find(name).module != "" }

// bestPeer is the one that takes the least CPU, or nil; of those under net/http, for one of ours that is.
func bestPeer(rows []load.Summary, http bool) *load.Summary {
	var best *load.Summary
	for i := range rows {
		r := &rows[i]
		if isPeer(r.Server) && (find(r.Server).http || !http) && (best == nil || r.CPU.Median < best.CPU.Median) {
			best = r
		}
	}
	return best
}

// judgeIdle judges what idle connections cost in one of our servers.
func judgeIdle(prints []load.Footprint, cell, server string) []report.Target {
	var mine, best *load.Footprint
	for i := range prints {
		p := &prints[i]
		if p.Server == server {
			mine = p
		} else if isPeer(p.Server) && (best == nil || p.Worst() < best.Worst()) {
			best = p
		}
	}
	if mine == nil {
		return nil
	}
	var all []report.Target
	if server == loop {
		all = append(all, load.JudgeIdle(cell, *mine, idleBound))
	}
	if best != nil {
		t := load.JudgeIdle(cell, *mine, best.Worst())
		t.Target = fmt.Sprintf("%s: below %s's %.0f B, the best of the others", cell, best.Server, best.Worst())
		all = append(all, t)
	}
	return all
}
