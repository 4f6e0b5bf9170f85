package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// coreWindows are how many publications are under way in the cell called cores: with one, each delivery is a write; with more, one write has several.
func coreWindows() []int { return []int{1, 32} }

// onCores measures servers with one processor and with two, the client on the second one. Two are all that a machine of two has: the client then takes its
// share of them, so that what they deliver says less than what a delivery costs.
func (r *result) onCores(ctx context.Context, b *load.Bench, c *cell, servers []string) (*report.Table, error) {
	t := &report.Table{
		Title: c.Name + ": " + c.title,
		Head:  []string{"under way", "server", "1000 deliveries/s, one", "two", "CPU s/1M, one", "two", "1000 deliveries/s of CPU, one", "two", "growth"},
		Note: "One: on one processor, the client on another. Two: on all, with the client. Deliveries a second of CPU are what so many processors deliver that do " +
			"nothing else; growth is how many times more two are than one.",
	}
	for _, window := range coreWindows() {
		var rows [2][]load.Summary
		for i, pinned := range []bool{true, false} {
			w := c.Work
			w.InFlight, w.Pinned = window, pinned
			w.Name = fmt.Sprintf("%s%dx%d", c.Name, i+1, window)
			var err error
			if rows[i], err = r.Steady(ctx, b, &w, servers, b.Window*time.Duration(c.windows)); err != nil {
				return nil, err
			}
		}
		for i := range rows[0] {
			one, two := &rows[0][i], &rows[1][i]
			alone := func(s *load.Summary, processors float64) measure.Spread {
				m := 1e3 * processors
				return measure.Spread{Median: m / s.CPU.Median, Min: m / s.CPU.Max, Max: m / s.CPU.Min}
			}
			t.Add(fmt.Sprint(window), one.Server, one.Rate.Times(1e-3).String(), two.Rate.Times(1e-3).String(), one.CPU.String(), two.CPU.String(),
				alone(one, 1).String(), alone(two, 2).String(), alone(two, 2).Against(alone(one, 1)).String())
		}
	}
	return t, nil
}
