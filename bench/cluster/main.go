// Command cluster measures a cluster of the command sluice on one machine: a NATS server, two hubs and several gateways, each a process of its own, with the
// clients of sluice bench, which go where the cluster sends them, and verify every byte of every publication. A trial in which a client lost a publication, or
// got one twice, is an error.
//
//	go run ./cluster
//	go run ./cluster -trials rebind,routes -clients 2000
//
// The trials: rebind lets a gateway join, leave and come back; routes counts which clients go where; restart restarts all nodes one after the other under
// publications in many channels; cost is what a gateway needs for clients, channels and links.
//
// Linux is needed. The machine should have nothing else to do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/cluster"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() { program.Main("cluster", run) }

// settings say how large trials are.
type settings struct {
	programs *cluster.Programs
	folder   string // for what sluice bench reads and writes

	clients int
	rate    float64       // publications a second in the trial restart
	calm    time.Duration // between two events
	rounds  int
	spread  time.Duration // over which a gateway that ends moves its clients
	seconds int           // of each half of the trial cost
	shapes  int           // of the trial cost: only the first so many; 0: all

	policies []string // of the trial rebind
}

// trials are all trials, in their order.
func trials() []trial {
	return []trial{{"rebind", rebind}, {"routes", routes}, {"restart", restart}, {"cost", cost}}
}

// trial measures something and returns a table.
type trial struct {
	name string
	run  func(ctx context.Context, s *settings) (*report.Table, error)
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	names := flags.String("trials", "all", "trials, separated by commas: rebind, routes, restart, cost")
	s := new(settings)
	flags.IntVar(&s.clients, "clients", 10_000, "how many clients there are")
	flags.Float64Var(&s.rate, "rate", 1000, "publications a second in the trial restart")
	flags.DurationVar(&s.calm, "calm", 15*time.Second, "how long a cluster is left alone after each event")
	flags.IntVar(&s.rounds, "rounds", 3, "how often each trial runs")
	flags.DurationVar(&s.spread, "spread", 5*time.Second, "over which time a gateway that ends moves its clients")
	flags.IntVar(&s.shapes, "shapes", 0, "only the first so many shapes of the trial cost; 0 is all")
	flags.IntVar(&s.seconds, "seconds", 5, "how long the trial cost measures each shape without publications, and with them")
	policies := flags.String("policies", "user,least_loaded", "policies of routes in the trial rebind")
	path := flags.String("sluice", "", "the command sluice; built from this repository when empty")
	file := flags.String("json", "", "a file for the tables")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	if flags.NArg() > 0 || min(s.clients, s.rounds, s.seconds) < 1 || s.rate <= 0 {
		return errors.New("-clients, -rounds, -seconds and -rate have to be positive; see -help")
	}
	s.policies = strings.Split(*policies, ",")
	var remove func()
	if s.programs, remove, err = cluster.Build(ctx, *path); err != nil {
		return err
	}
	defer remove()
	if s.folder, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./cluster "+strings.Join(args, " "), nil))
	var tables []*report.Table
	for _, one := range chosen {
		t, err := one.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		if err := t.Text(stdout); err != nil {
			return err
		}
		tables = append(tables, t)
	}
	if *file == "" {
		return nil
	}
	text, err := json.MarshalIndent(tables, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(*file, append(text, '\n'), 0o600)
}

// choose returns the trials with these names.
func choose(names string) ([]trial, error) {
	if names == "all" {
		return trials(), nil
	}
	var chosen []trial
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(trials(), func(t trial) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no trial is called %q: use rebind, routes, restart or cost", name)
		}
		chosen = append(chosen, trials()[i])
	}
	return chosen, nil
}
