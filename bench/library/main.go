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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

// command is what the command line says.
type command struct {
	cells, servers string
	rounds         int
	seconds        float64
	scale          scale
	json, markdown string
	profiles       string
}

// run is main, or the process of a server when the first argument is serve.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(args[1:], stdin, stdout)
	}
	var cmd command
	flags := flag.NewFlagSet("library", flag.ContinueOnError)
	flags.StringVar(&cmd.cells, "cells", "all", "cells, separated by commas")
	flags.StringVar(&cmd.servers, "servers", "all", "servers, separated by commas: "+strings.Join(serverNames(), ", "))
	flags.IntVar(&cmd.rounds, "rounds", 5, "how often each server is measured in each cell")
	flags.Float64Var(&cmd.seconds, "seconds", 1, "how long each time")
	flags.IntVar(&cmd.scale.conns, "conns", 10000, "at most so many connections in cells other than c")
	flags.IntVar(&cmd.scale.idle, "idle", 15000, "idle sessions, in cell c")
	flags.IntVar(&cmd.scale.burst, "burst", 100000, "messages of each client, in cell e")
	flags.DurationVar(&cmd.scale.rest, "rest", 30*time.Second, "how long sessions rest in cell c, three times as long as a server after the work in cell e")
	flags.StringVar(&cmd.json, "json", "", "a file for everything that was measured")
	flags.StringVar(&cmd.markdown, "markdown", "", "a file for the tables")
	flags.StringVar(&cmd.profiles, "profiles", "", "a folder for a profile of each server in each cell, of its last round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || cmd.rounds < 1 || cmd.seconds < 0.01 || min(cmd.scale.conns, cmd.scale.idle) < 1 || cmd.scale.burst < 1 {
		return errors.New("see -help")
	}
	r := &result{Machine: thisMachine(args), Cells: make(map[string][]summary)}
	_, _ = fmt.Fprintf(stdout, "%v\n", r.Machine)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tables, err := cmd.measure(ctx, r, stdout)
	if err != nil {
		return err
	}
	if cmd.json != "" {
		err = write(cmd.json, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(r)
		})
	}
	if cmd.markdown != "" {
		err = errors.Join(err, write(cmd.markdown, func(w io.Writer) error {
			_, _ = fmt.Fprintf(w, "%v\n", r.Machine)
			for _, t := range tables {
				if err := t.markdown(w); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return err
}

// measure fills r and returns its tables, which are printed as soon as they are known.
func (cmd *command) measure(ctx context.Context, r *result, stdout io.Writer) ([]*table, error) {
	chosen, err := choose(cmd.cells, cells(cmd.scale), func(c cell) string { return c.name })
	if err != nil {
		return nil, err
	}
	servers, err := choose(cmd.servers, serverNames(), func(s string) string { return s })
	if err != nil {
		return nil, err
	}
	p, err := compile()
	if err != nil {
		return nil, err
	}
	defer p.remove()
	b := &bench{
		programs: p, rounds: cmd.rounds, window: time.Duration(cmd.seconds * float64(time.Second)),
		rest: cmd.scale.rest, progress: progress(), profiles: cmd.profiles,
	}
	var tables []*table
	add := func(t *table) error {
		tables = append(tables, t)
		return t.text(stdout)
	}
	before := processorTimes()
	for _, c := range chosen {
		t, err := b.cell(ctx, c, c.servers(servers, cmd.servers != "all"), r)
		if err == nil {
			err = add(t)
		}
		if err != nil {
			return nil, err
		}
	}
	r.Machine.Stolen = before.stolenUntil(processorTimes())
	r.Targets = judge(r, chosen)
	t := targetTable(r.Targets)
	t.note += fmt.Sprintf(" The host gave %.1f %% of the processors' time to others.", 100*r.Machine.Stolen)
	return tables, add(t)
}

// cell measures one cell.
func (b *bench) cell(ctx context.Context, c cell, servers []string, r *result) (*table, error) {
	switch c.kind {
	case idle:
		prints, err := b.idle(ctx, c, servers)
		r.Idle = prints
		return idleTable(c, b.rest.String(), prints), err
	case burst:
		all, err := b.burst(ctx, c, servers)
		r.Burst = all
		return burstTable(c, (b.rest / 3).String(), all), err
	default:
		samples, err := b.steady(ctx, c, servers)
		rows := summarize(samples, servers)
		r.Samples = append(r.Samples, samples...)
		r.Cells[c.name] = rows
		return steadyTable(c, rows), err
	}
}

// write creates a file.
func write(name string, fill func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// progress returns where to say what is being measured: on a terminal only.
func progress() io.Writer {
	if i, err := os.Stderr.Stat(); err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return io.Discard
	}
	return os.Stderr
}

// choose returns those of all that names, separated by commas, names, or all of them.
func choose[T any](names string, all []T, name func(T) string) ([]T, error) {
	if names == "all" {
		return all, nil
	}
	var chosen []T
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == n })
		if i < 0 {
			return nil, fmt.Errorf("nothing is called %q", n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
