package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// growth is what deliveries cost with so many subscribers.
type growth struct {
	Subscribers int            `json:"subscribers"`
	Rows        []load.Summary `json:"rows"`
}

// grow measures servers with more and more subscribers.
func (r *result) grow(ctx context.Context, b *load.Bench, c *cell, servers []string) (*report.Table, error) {
	for _, n := range c.steps {
		w := c.Work
		w.Name, w.Conns = fmt.Sprint(c.Name, n), n
		rows, err := r.Steady(ctx, b, &w, servers, b.Window*time.Duration(c.windows))
		if err != nil {
			return nil, err
		}
		r.Growth = append(r.Growth, growth{Subscribers: n, Rows: rows})
	}
	return growthTable(c, servers, r.Growth), nil
}

func growthTable(c *cell, servers []string, all []growth) *report.Table {
	t := &report.Table{Title: c.Name + ": " + c.title, Head: []string{"server"}, Note: "In brackets how many ms until the last has it."}
	rows := make(map[string][]string)
	for _, g := range all {
		t.Head = append(t.Head, fmt.Sprintf("%d subscribers", g.Subscribers))
		for i := range g.Rows {
			s := &g.Rows[i]
			rows[s.Server] = append(rows[s.Server], fmt.Sprintf("%v [%s]", s.CPU, measure.Number(s.Others.P50.Median)))
		}
	}
	for _, name := range servers {
		t.Add(append([]string{name}, rows[name]...)...)
	}
	return t
}
