// Command sidecar measures what the example sidecar costs as a proxy of calls, beside two plain proxies that look at nothing and have two goroutines
// for each connection: one with io.Copy, which splices all it can, and one that copies through a buffer of 64 KiB. Calls of package rpc are made
// without a proxy as well. All take turns, round after round. Every server and proxy is a process of its own; answers are as long as their calls.
//
//	go run ./sidecar
//	go run ./sidecar -rounds 9 -seconds 5 -cells 1k
//
// Linux is needed. CPU counts, so the machine may have other things to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/measure"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() { program.Main("sidecar", run) }

// cell is a load.
type cell struct {
	name, what                  string
	size, connections, inFlight int
}

var cells = []cell{
	{"1k", "1 KiB, 16 connections × 1", 1 << 10, 16, 1},
	{"1kx16", "1 KiB, 4 × 16 in flight", 1 << 10, 4, 16},
	{"64k", "64 KiB, 4 × 4", 64 << 10, 4, 4},
	{"1m", "1 MiB, 4 × 2", 1 << 20, 4, 2},
}

// proxies are what is between client and server. The first is nothing.
var proxies = []string{"direct", "io.Copy", "copy", "sidecar"}

// routes are the networks of clients and of the server.
var routes = [][2]string{{"unix", "tcp"}, {"tcp", "tcp"}, {"tcp", "unix"}}

// sample is what one proxy did with one cell in one round.
type sample struct {
	calls      float64 // a second
	proxy, all float64 // seconds of CPU for a million calls: of the proxy, and of client, proxy and server
}

// run is main, or the process of a server or proxy when the first argument is serve.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(ctx, args[1:], stdout)
	}
	flags := flag.NewFlagSet("sidecar", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "how often each is measured")
	seconds := flags.Float64("seconds", 2, "for how long each time")
	chosen := flags.String("cells", "1k,1kx16,64k,1m", "which loads")
	path := flags.String("sidecar", "", "the example sidecar; built from this repository when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *seconds <= 0 {
		return errors.New("-rounds and -seconds have to be above 0")
	}
	var loads []cell
	for name := range strings.SplitSeq(*chosen, ",") {
		i := slices.IndexFunc(cells, func(c cell) bool { return c.name == name })
		if i < 0 {
			return fmt.Errorf("-cells: there is none of the name %q", name)
		}
		loads = append(loads, cells[i])
	}
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	binary := *path
	if binary == "" {
		if binary, err = build(ctx, filepath.Join(folder, "sidecar")); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./sidecar "+strings.Join(args, " "), nil))
	for _, route := range routes {
		b := &bench{binary: binary, folder: folder, route: route, length: time.Duration(*seconds * float64(time.Second)), samples: make(map[key][]sample)}
		for range *rounds {
			for _, c := range loads {
				for _, proxy := range proxies {
					if err := b.measure(ctx, c, proxy); err != nil {
						return fmt.Errorf("%s, %s: %w", c.name, proxy, err)
					}
				}
			}
		}
		if err := b.table(loads).Markdown(stdout); err != nil {
			return err
		}
	}
	return nil
}

// key names what samples belong to.
type key struct{ cell, proxy string }

// table returns the medians.
func (b *bench) table(loads []cell) *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("From %s to %s: CPU seconds, of the proxy and of all processes", b.route[0], b.route[1]),
		Head:  append([]string{"bodies", "for"}, proxies...),
	}
	for _, c := range loads {
		unit, per := "1 M calls", 1.0
		if c.size > 16<<10 {
			unit, per = "1 GiB", float64(1<<30)/float64(2*c.size)/1e6 // each call goes there and back
		}
		cpu, rate := []string{c.what, unit}, []string{"", "calls/s"}
		for _, proxy := range proxies {
			samples := b.samples[key{c.name, proxy}]
			ours := measure.Over(samples, func(s *sample) float64 { return s.proxy }).Times(per)
			all := measure.Over(samples, func(s *sample) float64 { return s.all }).Times(per)
			calls := measure.Over(samples, func(s *sample) float64 { return s.calls })
			cpu = append(cpu, fmt.Sprintf("%s; %s", ours, measure.Number(all.Median)))
			rate = append(rate, measure.Number(calls.Median))
		}
		t.Add(cpu...)
		t.Add(rate...)
	}
	return t
}
