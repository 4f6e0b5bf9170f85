// Command library compares servers of framed messages: package session with a loop in C, which is as good as it gets, with
// servers on package net, and with netpoll. Every server is a process of its own, and so is the client, which is in C as well and
// checks every byte. For each workload the servers take turns, round after round, so that all of them see the same machine.
//
//	go run ./library
//	go run ./library -cells a1,a2 -servers c,net,sluice-goroutine -rounds 3 -seconds 2
//
// A C compiler called cc is needed, and Linux. The machine should have nothing else to do.
//
// The cells: a1 and a2 are requests that are acknowledged, one and many in flight; b… are echoes of growing numbers of
// connections; c is the memory of idle sessions; d1 to d3 are servers whose handlers, or whose process, have other things to do;
// e is the memory of a server before, while and after it was busy.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() {
	program.Main("library", func(ctx context.Context, args []string, stdout io.Writer) error {
		return run(ctx, args, os.Stdin, stdout)
	})
}

// result is everything that was measured.
type result struct {
	compare.Result
	Burst []exertion `json:"burst"`
}

// run is main, or the process of a server when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(args[1:], stdin, stdout)
	}
	cmd := compare.NewCommand("library", serverNames())
	cmd.Flags().DurationVar(&cmd.Rest, "rest", 30*time.Second,
		"how long sessions rest in cell c, three times as long as a server after the work in cell e")
	bursts := cmd.Flags().Int("burst", 100000, "messages of each client, in cell e")
	if err := cmd.Parse(args); err != nil {
		return err
	}
	if *bursts < 1 {
		return compare.ErrUsage
	}
	r := new(result)
	c := compare.Comparison[cell]{
		Server: "frames", Client: "client", Peers: []string{"github.com/cloudwego/netpoll"},
		Servers: serverNames(), Cells: cells(scale{conns: cmd.Conns, idle: cmd.Idle, burst: *bursts}),
		Name: func(c cell) string { return c.Name }, Choose: cell.servers,
		Measure: func(ctx context.Context, b *load.Bench, c cell, servers []string) (*report.Table, error) {
			return r.measure(ctx, b, &c, servers)
		},
		Judge: func(chosen []cell) []report.Target { return judge(r, chosen) }, Before: func(path string) load.Before { return load.Before{Program: path} },
		Result: &r.Result, All: r,
	}
	return c.Run(ctx, cmd, args, stdout)
}

// measure measures one cell.
func (r *result) measure(ctx context.Context, b *load.Bench, c *cell, servers []string) (t *report.Table, err error) {
	switch c.kind {
	case idle:
		r.Idle, err = b.Idle(ctx, &c.Work, servers)
		return b.IdleTable(c.Name+": "+c.title, r.Idle), err
	case burst:
		r.Burst, err = bursts(ctx, b, c, servers)
		return burstTable(c, (b.Rest / 3).String(), r.Burst), err
	default:
		rows, err := r.Steady(ctx, b, &c.Work, servers, b.Window*time.Duration(c.windows))
		return steadyTable(c, rows), err
	}
}
