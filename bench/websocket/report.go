package main

import (
	"fmt"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// table is the table of a cell that was measured in rounds.
func (c *cell) table(rows []load.Summary) *report.Table {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"server", "1000 msgs/s", "CPU s/1M", "× C", "p50 ms", "p99", "p99.9", "max", "allocs/msg", "MB"},
	}
	switch {
	case c.Kind == load.Broadcast:
		t.Head[1], t.Head[8] = "1000 deliveries/s", "allocs/delivery"
		t.Note = "CPU for each million of deliveries; latencies until the last connection had the message"
	case c.Kind == load.Open:
		t.Head[1], t.Head[8] = "1000 opened/s", "allocs/upgrade"
		t.Head = append(t.Head, "GC %")
		t.Note = "Latencies from connect to the whole response. GC: collecting garbage, of the CPU, as the runtime estimates it"
	case c.stream > 0:
		t.Head = append(t.Head, "MB/s each way", "GB each way")
	}
	for i := range rows {
		r := &rows[i]
		ratio := r.Ratio.String()
		if r.Ratio.Median == 0 {
			ratio = "–"
		}
		latency := &r.Latency
		if c.Kind == load.Broadcast {
			latency = &r.Others
		}
		row := append([]string{r.Server, r.Rate.Times(1e-3).String(), r.CPU.String(), ratio}, latency.Cells()...)
		row = append(row, fmt.Sprintf("%.3f", r.Allocs.Median), r.Resident.Times(1e-6).String())
		switch {
		case c.Kind == load.Open:
			row = append(row, r.GC.Times(100).String())
		case c.stream > 0:
			rate := r.Rate.Times(float64(c.Size))
			row = append(row, rate.Times(1e-6).String(), rate.Times(c.stream.Seconds()*1e-9).String())
		}
		t.Add(row...)
	}
	return t
}
