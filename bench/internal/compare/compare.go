// Package compare is the command line of a comparison of servers: which cells and servers are measured, how often, and where the results
// go.
package compare

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// Command is what the command line says.
type Command struct {
	Conns, Idle int           // at most so many connections; so many idle ones
	Rest        time.Duration // how long those rest

	name, cells, servers     string
	rounds                   int
	seconds                  float64
	json, markdown, profiles string
	before                   string
	flags                    *flag.FlagSet
}

// NewCommand returns the command called name, in the folder of that name.
func NewCommand(name string, servers []string) *Command {
	c := &Command{name: name, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	f := c.flags
	f.StringVar(&c.cells, "cells", "all", "cells, separated by commas")
	f.StringVar(&c.servers, "servers", "all", "servers, separated by commas: "+strings.Join(servers, ", "))
	f.IntVar(&c.rounds, "rounds", 5, "how often each server is measured in each cell")
	f.Float64Var(&c.seconds, "seconds", 1, "how long each time")
	f.IntVar(&c.Conns, "conns", 10000, "at most so many connections in cells of busy ones")
	f.IntVar(&c.Idle, "idle", 15000, "idle connections")
	f.StringVar(&c.json, "json", "", "a file for everything that was measured")
	f.StringVar(&c.markdown, "markdown", "", "a file for the tables")
	f.StringVar(&c.profiles, "profiles", "", "a folder for a profile of each server in each cell, of its last round")
	f.StringVar(&c.before, "before", "", "what is measured as well, as NAME"+load.AtBefore+" beside each server of Sluice: this command "+
		"built from another commit, or for push the command sluice")
	return c
}

// Flags are the flags, for those that only one command has.
func (c *Command) Flags() *flag.FlagSet { return c.flags }

// Parse reads the command line.
func (c *Command) Parse(args []string) error {
	if err := c.flags.Parse(args); err != nil {
		return err
	}
	if c.flags.NArg() > 0 || c.rounds < 1 || c.seconds < 0.01 || min(c.Conns, c.Idle) < 1 {
		return ErrUsage
	}
	return nil
}

// ErrUsage says that a command line makes no sense.
var ErrUsage = errors.New("see -help")

// Result is everything that was measured. Cells are in the order of their measurement.
type Result struct {
	Machine report.Machine            `json:"machine"`
	Samples []load.Sample             `json:"samples"`
	Cells   map[string][]load.Summary `json:"cells"`
	Idle    []load.Footprint          `json:"idle"`
	Targets []report.Target           `json:"targets"`
}

// Steady measures a cell in rounds and adds it to the result.
func (r *Result) Steady(ctx context.Context, b *load.Bench, w *load.Work, servers []string, d time.Duration) ([]load.Summary, error) {
	samples, err := b.Steady(ctx, w, servers, d)
	rows := load.Summarize(samples, servers)
	r.Samples = append(r.Samples, samples...)
	r.Cells[w.Name] = rows
	return rows, err
}

// Comparison is what a command measures.
type Comparison[C any] struct {
	Server  string   // in C
	Client  string   // in C as well
	Peers   []string // modules whose versions are reported
	Servers []string
	Cells   []C
	Name    func(C) string
	Choose  func(c C, servers []string, named bool) []string // which servers are measured in a cell; named: they were asked for by name
	Measure func(ctx context.Context, b *load.Bench, c C, servers []string) (*report.Table, error)
	Judge   func([]C) []report.Target
	Before  func(path string) load.Before // what -before makes of its argument
	Result  *Result
	All     any // what -json writes: Result, or what holds it
}

// Run measures all that was asked for.
func (c *Comparison[C]) Run(ctx context.Context, cmd *Command, args []string, stdout io.Writer) error {
	r := c.Result
	r.Machine = report.ThisMachine("go run ./"+cmd.name+" "+strings.Join(args, " "), c.Peers)
	r.Cells = make(map[string][]load.Summary)
	_, _ = fmt.Fprintf(stdout, "%v\n", r.Machine)
	tables, err := c.measure(ctx, cmd, stdout)
	if err != nil {
		return err
	}
	if cmd.json != "" {
		err = write(cmd.json, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(c.All)
		})
	}
	if cmd.markdown != "" {
		err = errors.Join(err, write(cmd.markdown, func(w io.Writer) error {
			_, _ = fmt.Fprintf(w, "%v\n", r.Machine)
			for _, t := range tables {
				if err := t.Markdown(w); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return err
}

// measure fills the result and returns its tables, which are printed as soon as they are known.
func (c *Comparison[C]) measure(ctx context.Context, cmd *Command, stdout io.Writer) ([]*report.Table, error) {
	chosen, err := choose(cmd.cells, c.Cells, c.Name)
	if err != nil {
		return nil, err
	}
	servers, err := choose(cmd.servers, c.servers(cmd), func(s string) string { return s })
	if err != nil {
		return nil, err
	}
	p, err := load.Compile(c.Server, c.Client)
	if err != nil {
		return nil, err
	}
	defer p.Remove()
	b := &load.Bench{
		Programs: p, Rounds: cmd.rounds, Window: time.Duration(cmd.seconds * float64(time.Second)),
		Rest: cmd.Rest, Progress: progress(), Profiles: cmd.profiles,
	}
	if cmd.before != "" {
		b.Before = c.Before(cmd.before)
	}
	var tables []*report.Table
	add := func(t *report.Table) error {
		tables = append(tables, t)
		return t.Text(stdout)
	}
	before := report.ProcessorTimes()
	for _, one := range chosen {
		lost := report.DroppedPackets()
		t, err := c.Measure(ctx, b, one, c.Choose(one, servers, cmd.servers != "all"))
		if err == nil {
			t.Note = strings.TrimSpace(t.Note + report.OfDropped(report.DroppedPackets()-lost))
			err = add(t)
		}
		if err != nil {
			return nil, err
		}
	}
	r := c.Result
	r.Machine.Stolen = before.StolenUntil(report.ProcessorTimes())
	r.Targets = append(c.Judge(chosen), r.againstBefore()...)
	t := report.Targets(r.Targets)
	t.Note += fmt.Sprintf(" The host gave %.1f %% of the processors' time to others.", 100*r.Machine.Stolen)
	return tables, add(t)
}

// servers are the names of all servers that can be asked for.
func (c *Comparison[C]) servers(cmd *Command) []string {
	all := slices.Clone(c.Servers)
	if cmd.before == "" {
		return all
	}
	for _, name := range c.Servers {
		if strings.HasPrefix(name, "sluice") {
			all = append(all, name+load.AtBefore)
		}
	}
	return all
}

// beforeBound is how much more CPU a message may cost than at the commit before.
const beforeBound = 1.05

// againstBefore compares the servers of this commit with those of the one before.
func (r *Result) againstBefore() []report.Target {
	var all []report.Target
	for _, cell := range slices.Sorted(maps.Keys(r.Cells)) {
		for i := range r.Cells[cell] {
			row := &r.Cells[cell][i]
			if row.Before.Median > 0 {
				all = append(all, report.Target{
					Server: row.Server, Target: fmt.Sprintf("%s: CPU at most %.2f × before", cell, beforeBound),
					Measured: row.Before.String() + " ×", Met: report.Verdict(row.Before, beforeBound),
				})
			}
		}
	}
	return all
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
