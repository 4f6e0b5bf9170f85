package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a promise and what became of it.
type target struct {
	Server   string `json:"server"`
	Target   string `json:"target"`
	Measured string `json:"measured"`
	Met      string `json:"met"` // yes, no, or no but within the spread of the rounds
}

// The verdicts. A median that is over its bound while the best round is not may be the machine's fault.
const (
	yes   = "yes"
	no    = "no"
	noise = "no, within the spread"
)

// promise is what one of our engines has to keep.
type promise struct {
	server        string
	single, piped float64 // CPU against the limit, with one and with more messages in flight on each connection
	session       float64 // bytes of an idle session
	tail          float64 // p99 against the limit where many connections have many in flight; 0: none
}

func promises() []promise {
	return []promise{
		{server: "sluice-loop", single: 1.1, piped: 1.15, session: 819, tail: 2},
		{server: "sluice-goroutine", single: 1.3, piped: 1.4, session: 4608},
	}
}

// Bounds that hold for both engines.
const (
	othersBound = 3.0   // p99, in milliseconds, of messages beside handlers that sleep
	sleepBound  = 0.9   // messages a second against net when every handler sleeps
	allocsBound = 0.005 // allocations a message that are not any: the measurement makes a few itself
)

// verdict says whether a spread keeps below a bound.
func verdict(s spread, bound float64) string {
	switch {
	case s.Median <= bound:
		return yes
	case s.Min <= bound:
		return noise
	default:
		return no
	}
}

// judge compares what was measured with what was promised. What was not measured has no row.
func judge(r *result, cells []cell) []target {
	var all []target
	for _, p := range promises() {
		for _, c := range cells {
			if rows := r.Cells[c.name]; rows != nil {
				all = append(all, p.judgeCell(c, rows)...)
			}
		}
		for _, f := range r.Idle {
			if f.Server == p.server {
				all = append(all, p.judgeIdle(f))
			}
		}
	}
	return all
}

func find(rows []summary, server string) *summary {
	if i := slices.IndexFunc(rows, func(s summary) bool { return s.Server == server }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// judgeCell is judge for one cell.
func (p promise) judgeCell(c cell, rows []summary) []target {
	mine := find(rows, p.server)
	if mine == nil {
		return nil
	}
	var all []target
	add := func(what, measured, met string) {
		all = append(all, target{Server: p.server, Target: c.name + ": " + what, Measured: measured, Met: met})
	}
	base, plain := find(rows, limit), find(rows, "net")
	if base != nil && c.rate == 0 && c.every == 0 {
		bound := p.single
		if c.inFlight > 1 {
			bound = p.piped
		}
		add(fmt.Sprintf("CPU at most %.2f × C", bound), mine.Ratio.String()+" ×", verdict(mine.Ratio, bound))
	}
	if base != nil && p.tail > 0 && c.inFlight > 1 && c.conns >= 1000 {
		tail := against(mine.Latency.P99, base.Latency.P99)
		add(fmt.Sprintf("p99 at most %.0f × C", p.tail), tail.String()+" ×", verdict(tail, p.tail))
	}
	if c.every > 1 {
		add(fmt.Sprintf("p99 of the others below %.0f ms", othersBound), mine.Others.P99.String()+" ms", verdict(mine.Others.P99, othersBound))
	}
	if c.every == 1 && plain != nil {
		share := against(plain.Rate, mine.Rate)
		add("as many messages as net, less 10 %", number(1/share.Median)+" ×", verdict(share, 1/sleepBound))
	}
	if c.every == 0 {
		add("no allocation a message", fmt.Sprintf("%.4f", mine.Allocs.Median), verdict(mine.Allocs, allocsBound))
	}
	if plain != nil && !strings.HasPrefix(c.name, "a") {
		measured, met := notWorse(c, mine, plain)
		add("p99, p99.9, max not above net's", measured, met)
	}
	return all
}

func (p promise) judgeIdle(f footprint) target {
	worst := max(f.Silent, f.Spoke, f.Rested)
	return target{
		Server: p.server, Target: fmt.Sprintf("c: at most %.0f B an idle session", p.session),
		Measured: fmt.Sprintf("%.0f, %.0f, %.0f B", f.Silent, f.Spoke, f.Rested), Met: verdict(spread{worst, worst, worst}, p.session),
	}
}

// against divides a by b: the medians, and at best and worst the ends of the ranges.
func against(a, b spread) spread {
	if b.Min <= 0 {
		return spread{}
	}
	return spread{Median: a.Median / b.Median, Min: a.Min / b.Max, Max: a.Max / b.Min}
}

// notWorse compares latencies with those of net: where some handlers sleep, of the messages beside them.
func notWorse(c cell, mine, plain *summary) (measured, met string) {
	a, b := &mine.Latency, &plain.Latency
	if c.every > 1 {
		a, b = &mine.Others, &plain.Others
	}
	met = yes
	var ratios []string
	for _, s := range []spread{against(a.P99, b.P99), against(a.P999, b.P999), against(a.Max, b.Max)} {
		ratios = append(ratios, number(s.Median))
		if v := verdict(s, 1); v == no || v == noise && met == yes {
			met = v
		}
	}
	return strings.Join(ratios, ", ") + " ×", met
}
