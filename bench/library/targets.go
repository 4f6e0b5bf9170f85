package main

import (
	"fmt"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
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

// judge compares what was measured with what was promised. What was not measured has no row.
func judge(r *result, cells []cell) []report.Target {
	var all []report.Target
	for _, p := range promises() {
		for i := range cells {
			c := &cells[i]
			if rows := r.Cells[c.Name]; rows != nil {
				all = append(all, p.judgeCell(c, rows)...)
			}
		}
		for _, f := range r.Idle {
			if f.Server == p.server {
				all = append(all, load.JudgeIdle("c", f, p.session))
			}
		}
	}
	return all
}

// judgeCell is judge for one cell.
func (p promise) judgeCell(c *cell, rows []load.Summary) []report.Target {
	mine := load.Find(rows, p.server)
	if mine == nil {
		return nil
	}
	var all []report.Target
	add := func(what, measured, met string) {
		all = append(all, report.Target{Server: p.server, Target: c.Name + ": " + what, Measured: measured, Met: met})
	}
	base, plain := load.Find(rows, load.Limit), load.Find(rows, "net")
	if base != nil && c.Rate == 0 && c.Every == 0 {
		bound := p.single
		if c.InFlight > 1 {
			bound = p.piped
		}
		add(fmt.Sprintf("CPU at most %.2f × C", bound), mine.Ratio.String()+" ×", report.Verdict(mine.Ratio, bound))
	}
	if base != nil && p.tail > 0 && c.InFlight > 1 && c.Conns >= 1000 {
		tail := mine.Latency.P99.Against(base.Latency.P99)
		add(fmt.Sprintf("p99 at most %.0f × C", p.tail), tail.String()+" ×", report.Verdict(tail, p.tail))
	}
	if c.Every > 1 {
		p99 := mine.Others.P99
		add(fmt.Sprintf("p99 of the others below %.0f ms", othersBound), p99.String()+" ms", report.Verdict(p99, othersBound))
	}
	if c.Every == 1 && plain != nil {
		share := plain.Rate.Against(mine.Rate)
		add("as many messages as net, less 10 %", measure.Number(1/share.Median)+" ×", report.Verdict(share, 1/sleepBound))
	}
	if c.Every == 0 {
		add("no allocation a message", fmt.Sprintf("%.4f", mine.Allocs.Median), report.Verdict(mine.Allocs, allocsBound))
	}
	if plain != nil && !strings.HasPrefix(c.Name, "a") {
		measured, met := notWorse(c, mine, plain)
		add("p99, p99.9, max not above net's", measured, met)
	}
	return all
}

// notWorse compares latencies with those of net: where some handlers sleep, of the messages beside them.
func notWorse(c *cell, mine, plain *load.Summary) (measured, met string) {
	a, b := &mine.Latency, &plain.Latency
	if c.Every > 1 {
		a, b = &mine.Others, &plain.Others
	}
	met = report.Yes
	var ratios []string
	for _, s := range []measure.Spread{a.P99.Against(b.P99), a.P999.Against(b.P999), a.Max.Against(b.Max)} {
		ratios = append(ratios, measure.Number(s.Median))
		if v := report.Verdict(s, 1); v == report.No || v == report.Noise && met == report.Yes {
			met = v
		}
	}
	return strings.Join(ratios, ", ") + " ×", met
}
