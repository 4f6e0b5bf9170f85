// Command websocket compares WebSocket servers: ours with a loop in C, which is as good as it gets, and with other packages. Every server
// is a process of its own, and so is the client, which is in C as well, sends frames that were masked beforehand, and checks every byte.
// For each workload the servers take turns, round after round, so that all of them see the same machine.
//
//	go run ./websocket
//	go run ./websocket -cells e100,p1000 -servers c,sluice-loop,gws -rounds 3 -seconds 2
//
// A C compiler called cc is needed, and Linux. The machine should have nothing else to do.
//
// The cells: e… are echoes of growing numbers of connections, one message in flight on each, s100 and l100 the same with small and
// large messages, p1000 with many in flight; idle is the memory of idle connections; bc sends each message to all connections; stream
// is what ten thousand connections move when each sends as fast as it is answered; open is how fast connections come.
package main

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
	"github.com/sluice-push/sluice/bench/internal/server"
)

func main() {
	program.Main("websocket", func(ctx context.Context, args []string, stdout io.Writer) error {
		return run(ctx, args, os.Stdin, stdout)
	})
}

// run is main, or the process of a server when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(args[1:], stdin, stdout)
	}
	cmd := compare.NewCommand("websocket", serverNames())
	cmd.Flags().DurationVar(&cmd.Rest, "rest", 30*time.Second, "how long connections rest in cell idle")
	stream := cmd.Flags().Duration("stream", 30*time.Second, "how long cell stream takes for each server, which is measured once")
	if err := cmd.Parse(args); err != nil {
		return err
	}
	if *stream < 10*time.Millisecond {
		return compare.ErrUsage
	}
	r := new(compare.Result)
	c := compare.Comparison[cell]{
		Server: "websocket", Client: "client", Peers: modules(), Servers: serverNames(), Cells: cells(cmd.Conns, cmd.Idle, *stream),
		Name: func(c cell) string { return c.Name }, Choose: cell.servers,
		Measure: func(ctx context.Context, b *load.Bench, c cell, servers []string) (*report.Table, error) {
			return measureCell(ctx, b, r, &c, servers)
		},
		Judge: func(chosen []cell) []report.Target { return judge(r, chosen) }, Before: func(path string) load.Before { return load.Before{Program: path} },
		Result: r, All: r,
	}
	return c.Run(ctx, cmd, args, stdout)
}

// measureCell measures one cell.
func measureCell(ctx context.Context, b *load.Bench, r *compare.Result, c *cell, servers []string) (t *report.Table, err error) {
	if c.idle {
		r.Idle, err = b.Idle(ctx, &c.Work, servers)
		return b.IdleTable(c.Name+": "+c.title, r.Idle), err
	}
	window := b.Window
	if c.stream > 0 {
		once := *b
		once.Rounds = 1
		b, window = &once, c.stream
	}
	rows, err := r.Steady(ctx, b, &c.Work, servers, window)
	return c.table(rows), err
}

// serve is the process of a server in Go.
func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	p := server.NewProcess()
	broadcast := p.Flags().Bool("broadcast", false, "send each message to all connections, not only where it came from")
	return p.Run(args, stdin, stdout, func(name string, ln net.Listener) (*server.Served, error) {
		i := slices.IndexFunc(rivals(), func(r rival) bool { return r.name == name })
		if i < 0 {
			return nil, server.Unknown(name)
		}
		return rivals()[i].start(ln, *broadcast), nil
	})
}
