package main

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// steadyTable is the table of a cell that was measured in rounds.
func steadyTable(c *cell, rows []load.Summary) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"server", "1000 msgs/s", "CPU s/1M", "× C", "p50 ms", "p99", "p99.9", "max", "allocs/msg"},
	}
	for i := range rows {
		r := &rows[i]
		cpu, ratio := r.CPU.String(), r.Ratio.String()
		if c.burners > 0 && r.Server != load.Limit {
			cpu, ratio = "–", "–" // most of it is the burners'
		}
		if r.Ratio.Median == 0 {
			ratio = "–"
		}
		row := append([]string{r.Server, r.Rate.Times(1e-3).String(), cpu, ratio}, r.Latency.Cells()...)
		t.Add(append(row, fmt.Sprintf("%.3f", r.Allocs.Median))...)
		if c.Every > 1 {
			t.Add(append(append([]string{"· others", "", "", ""}, r.Others.Cells()...), "")...)
		}
	}
	if c.Every > 1 {
		t.Note = "others: the messages whose handler did not sleep"
	}
	return t
}

func burstTable(c *cell, rest string, all []exertion) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head: []string{
			"server", "seconds", "1000 msgs/s", "CPU s/1M", "p50 ms", "p99", "p99.9", "max", "MB before, peak, after", "goroutines then",
		},
		Note: "after: " + rest + " after the last connection was closed",
	}
	for _, e := range all {
		l := &e.Latency
		t.Add(
			e.Server, measure.Number(e.Seconds), measure.Number(e.Rate/1e3), measure.Number(e.CPU),
			measure.Milliseconds(l.P50), measure.Milliseconds(l.P99), measure.Milliseconds(l.P999), measure.Milliseconds(l.Max),
			fmt.Sprintf("%s, %s, %s", measure.Megabytes(e.Before.Resident), measure.Megabytes(e.Peak.Resident), measure.Megabytes(e.After.Resident)),
			fmt.Sprintf("%d, %d, %d", e.Before.Goroutines, e.Peak.Goroutines, e.After.Goroutines),
		)
	}
	return t
}
