package main

import "fmt"

// result is everything that was measured. Cells are in the order of their measurement.
type result struct {
	Machine machine              `json:"machine"`
	Samples []sample             `json:"samples"`
	Cells   map[string][]summary `json:"cells"`
	Idle    []footprint          `json:"idle"`
	Burst   []exertion           `json:"burst"`
	Targets []target             `json:"targets"`
}

// steadyTable is the table of a cell that was measured in rounds.
func steadyTable(c cell, rows []summary) *table {
	t := &table{
		title: c.name + ": " + c.title,
		head:  []string{"server", "1000 msgs/s", "CPU s/1M", "× C", "p50 ms", "p99", "p99.9", "max", "allocs/msg"},
	}
	for i := range rows {
		r := &rows[i]
		cpu, ratio := r.CPU.String(), r.Ratio.String()
		if c.burners > 0 && r.Server != limit {
			cpu, ratio = "–", "–" // most of it is the burners'
		}
		if r.Ratio.Median == 0 {
			ratio = "–"
		}
		l := &r.Latency
		t.rows = append(t.rows, []string{
			r.Server, r.Rate.thousands().String(), cpu, ratio, l.P50.String(), l.P99.String(), l.P999.String(), l.Max.String(),
			fmt.Sprintf("%.3f", r.Allocs.Median),
		})
		if c.every > 1 {
			l = &r.Others
			t.rows = append(t.rows, []string{
				"· others", "", "", "", l.P50.String(), l.P99.String(), l.P999.String(), l.Max.String(), "",
			})
		}
	}
	if c.every > 1 {
		t.note = "others: the messages whose handler did not sleep"
	}
	return t
}

func idleTable(c cell, rest string, prints []footprint) *table {
	t := &table{
		title: c.name + ": " + c.title,
		head:  []string{"server", "silent", "just after a message", rest + " later", "goroutines"},
		note:  "Resident memory of the process after three garbage collections, less that without sessions.",
	}
	for _, p := range prints {
		t.rows = append(t.rows, []string{
			p.Server, fmt.Sprintf("%.0f", p.Silent), fmt.Sprintf("%.0f", p.Spoke), fmt.Sprintf("%.0f", p.Rested), number(max(p.Goroutines, 0)),
		})
	}
	return t
}

func burstTable(c cell, rest string, all []exertion) *table {
	t := &table{
		title: c.name + ": " + c.title,
		head: []string{
			"server", "seconds", "1000 msgs/s", "CPU s/1M", "p50 ms", "p99", "p99.9", "max", "MB before, peak, after", "goroutines then",
		},
		note: "after: " + rest + " after the last connection was closed",
	}
	for _, e := range all {
		l := &e.Latency
		t.rows = append(t.rows, []string{
			e.Server, number(e.Seconds), number(e.Rate / 1e3), number(e.CPU),
			milliseconds(l.P50), milliseconds(l.P99), milliseconds(l.P999), milliseconds(l.Max),
			fmt.Sprintf("%s, %s, %s", megabytes(e.Before.Resident), megabytes(e.Peak.Resident), megabytes(e.After.Resident)),
			fmt.Sprintf("%d, %d, %d", e.Before.Goroutines, e.Peak.Goroutines, e.After.Goroutines),
		})
	}
	return t
}

func targetTable(targets []target) *table {
	t := &table{title: "targets", head: []string{"server", "target", "measured", "met"}}
	met := 0
	for _, g := range targets {
		if g.Met == yes {
			met++
		}
		t.rows = append(t.rows, []string{g.Server, g.Target, g.Measured, g.Met})
	}
	t.note = fmt.Sprintf("%d of %d are met.", met, len(targets))
	return t
}
