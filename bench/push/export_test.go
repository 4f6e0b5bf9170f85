package main

import (
	"context"
	"io"
	"strings"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// What tests of the command use.
var (
	Main        = main
	ServerNames = serverNames
)

// Run is the command line.
func Run(args []string, stdout io.Writer) error { return run(context.Background(), args, nil, stdout) }

// Judge judges what was measured in a cell, in its full size; memory is bytes for each of 10,000 subscribers.
func Judge(name string, rows []load.Summary, memory float64) []report.Target {
	r := &result{
		Result: compare.Result{Cells: map[string][]load.Summary{name: rows}},
		Memory: map[string][]footprint{name: {
			{Server: sluiceNATS, Steps: []step{{Subscribers: 10000, Collected: memory}, {Subscribers: 15000, Collected: 1}}},
		}},
	}
	for _, c := range cells(10000, 15000, spells{}, "") {
		if c.Name == name {
			return judge(r, []cell{c})
		}
	}
	return nil
}

// Chosen returns which of all servers are measured in a cell.
func Chosen(name string, named bool) []string {
	for _, c := range cells(10000, 15000, spells{}, "") {
		if c.Name == name {
			return c.servers(serverNames(), named)
		}
	}
	return nil
}

// Breakdown is what a profile comes to: in all, in writes, in collecting garbage, and the largest function of the rest.
func Breakdown(text, unit string, leaves bool) (figures [3]float64, largest string, err error) {
	all, err := parseTraces(strings.NewReader(text), unit)
	b := breakDown(all, leaves)
	if len(b.rest) > 0 {
		largest = b.rest[0].function
	}
	return [3]float64{b.total, b.writes, b.collects}, largest, err
}
