package main

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// table is the table of a cell that was measured in rounds.
func (c *cell) table(rows []load.Summary) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head: []string{
			"server", "1000 deliveries/s", "CPU s/1M", "× limit", "last p50 ms", "× limit", "last p99", "p50 ms", "p99", "p99.9",
			"allocs/delivery", "MB",
		},
		Note: "last: until the last subscriber had a publication. Limits: the cheaper and the faster of those in C. Nothing was lost.",
	}
	for i := range rows {
		r := &rows[i]
		t.Add(
			r.Server, r.Rate.Times(1e-3).String(), r.CPU.String(), ratio(r.Ratio), r.Others.P50.String(), ratio(r.Delay), r.Others.P99.String(),
			r.Latency.P50.String(), r.Latency.P99.String(), r.Latency.P999.String(), fmt.Sprintf("%.3f", r.Allocs.Median),
			r.Resident.Times(1e-6).String(),
		)
	}
	return t
}

// ratio prints what is a multiple of the limit, if that was measured.
func ratio(s measure.Spread) string {
	if s.Median == 0 {
		return "–"
	}
	return s.String()
}

// memoryTable is the table of a cell about memory.
func memoryTable(c *cell, prints []footprint) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"server"},
		Note: "Resident memory of the process, less that with the first few subscribers, divided by those that came since: after garbage " +
			"collections, and as it was before these. Socket buffers are the kernel's for TCP, both ends.",
	}
	for _, n := range c.steps {
		t.Head = append(t.Head, fmt.Sprintf("%d subscribers", n))
	}
	t.Head = append(t.Head, "before collecting", "socket buffers", "goroutines")
	for _, p := range prints {
		row := []string{p.Server}
		for _, s := range p.Steps {
			row = append(row, fmt.Sprintf("%.0f", s.Collected))
		}
		judged := p.at(memoryConns)
		row = append(row, fmt.Sprintf("%.0f", judged.Resident), fmt.Sprintf("%.0f", judged.Sockets), measure.Number(judged.Goroutines))
		t.Add(row...)
	}
	if len(c.steps) > 1 && len(prints) > 0 {
		t.Note += fmt.Sprintf(" The last three columns are of %d subscribers.", prints[0].at(memoryConns).Subscribers)
	}
	return t
}
