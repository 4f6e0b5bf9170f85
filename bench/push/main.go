// Command push compares push servers: how much CPU a delivery costs them, when the last subscriber has a publication, and what a subscriber
// needs of memory. The command sluice, as users run it, stands beside a loop in C, which is as good as it gets, with one thread and
// with two, a hub in Go as it is usually written, and the NATS server. Every server is a process of its own, and so is the client, in
// C, which compares every byte of every delivery; a delivery that is lost, doubled or out of order is an error. For each workload
// the servers take turns, round after round, so that all of them see the same machine.
//
//	go run ./push
//	go run ./push -cells one10k,hundred -servers c1,c2,sluice -rounds 3
//	go run ./push profile -out folder
//
// A C compiler called cc is needed, and Linux. The machine should have nothing else to do.
//
// The cells: one… is a channel with many subscribers and few publications a second, hundred one with 100,000 deliveries a second, closed…
// publish as fast as all subscribers have what was published, the server on one processor in closed1 and closed32; market… are many channels
// of unequal rates, of which each client wants some; memory… is what a subscriber needs, grow what a delivery costs as
// subscribers become more, stalled what clients cost that read nothing for a
// while, storm how soon all are back that were cut at once. link is what a publication costs from a hub to a gateway, beside gRPC. tiers is what deliveries
// cost when the subscribers are at several servers, cores what a server delivers with one processor and with two. Profile takes profiles of sluice while it
// has much to do.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() {
	program.Main("push", func(ctx context.Context, args []string, stdout io.Writer) error {
		return run(ctx, args, os.Stdin, stdout)
	})
}

// result is everything that was measured.
type result struct {
	compare.Result
	Memory  map[string][]footprint `json:"memory"` // by cell
	Growth  []growth               `json:"growth"`
	Stalled []stalling             `json:"stalled"`
	Storms  []storm                `json:"storms"`
	Links   []linkSample           `json:"links"`
	Tiers   []tierSample           `json:"tiers"`

	sluice string // the path of the command
}

// run is main, or the process of a server when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			return serve(args[1:], stdin, stdout)
		case "profile":
			return profile(ctx, args[1:], stdout)
		}
	}
	cmd := compare.NewCommand("push", serverNames())
	cmd.Flags().DurationVar(&cmd.Rest, "rest", 2*time.Second, "how long subscribers rest before their memory is looked at")
	var long spells
	cmd.Flags().DurationVar(&long.stall, "stall", 10*time.Second, "how long clients of the cell called stalled read nothing")
	cmd.Flags().DurationVar(&long.around, "around", 5*time.Second, "how long is measured before that and after it")
	path := cmd.Flags().String("sluice", "", "the command sluice; built from this repository when empty")
	if err := cmd.Parse(args); err != nil {
		return err
	}
	binary, remove, err := node.Build(ctx, *path)
	if err != nil {
		return err
	}
	defer remove()
	r := &result{Memory: make(map[string][]footprint), sluice: binary}
	c := compare.Comparison[cell]{
		Server: "websocket", Client: "subscribers", Peers: []string{gorillaModule, natsModule},
		Servers: serverNames(), Cells: cells(cmd.Conns, cmd.Idle, long, binary),
		Name: func(c cell) string { return c.Name }, Choose: cell.servers,
		Measure: func(ctx context.Context, b *load.Bench, c cell, servers []string) (*report.Table, error) {
			return r.measure(ctx, b, &c, servers)
		},
		Judge: func(chosen []cell) []report.Target { return judge(r, chosen) }, Before: func(path string) load.Before { return load.Before{Args: []string{"-sluice", path}} },
		Result: &r.Result, All: r,
	}
	return c.Run(ctx, cmd, args, stdout)
}

// measure measures one cell.
func (r *result) measure(ctx context.Context, b *load.Bench, c *cell, servers []string) (*report.Table, error) {
	switch c.kind {
	case memory:
		prints, err := footprints(ctx, b, c, servers)
		r.Memory[c.Name] = prints
		return memoryTable(c, prints), err
	case growing:
		return r.grow(ctx, b, c, servers)
	case storms:
		all, err := outlast(ctx, b, c, servers)
		r.Storms = all
		return stormTable(c, all, servers), err
	case links:
		all, err := crossings(ctx, b, c, servers)
		r.Links = all
		return linkTable(c, all), err
	case tiers:
		all, err := climb(ctx, b, c, r.sluice)
		r.Tiers = all
		return tierTable(c, all), err
	case cores:
		return r.onCores(ctx, b, c, servers)
	case stalls:
		all, err := stallings(ctx, b, c, servers)
		r.Stalled = all
		return stalledTable(c, all), err
	default:
		rows, err := r.Steady(ctx, b, &c.Work, servers, b.Window*time.Duration(c.windows))
		return c.table(rows), err
	}
}
