package main

import (
	"context"
	"io"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// What tests of the command use.
var (
	Main        = main
	ServerNames = serverNames
	Args        = args
)

// Run is the command line.
func Run(args []string, stdout io.Writer) error { return run(context.Background(), args, nil, stdout) }

// Judge judges what was measured in a cell, in its full size.
func Judge(name string, rows []load.Summary, prints []load.Footprint) []report.Target {
	for _, c := range cells(10000, 15000, 1) {
		if c.Name == name {
			return judge(&compare.Result{Cells: map[string][]load.Summary{name: rows}, Idle: prints}, []cell{c})
		}
	}
	return nil
}
