package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/compare"
	"github.com/sluice-push/sluice/bench/internal/load"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/report"
)

// profiler takes profiles of sluice while it has much to do, and while many clients are idle.
type profiler struct {
	binary, broker string
	programs       *load.Programs
	conns, idle    int
	rate           int // publications a second; 0: one is always under way
	seconds        int
	out            string // folder
}

// heap is the profile that says where memory was allocated.
const heap = "heap"

// profileTop is how many functions are printed of a profile.
const profileTop = 12

// profile is the command that takes profiles and prints what is in them.
func profile(ctx context.Context, args []string, stdout io.Writer) error {
	p := new(profiler)
	f := flag.NewFlagSet("push profile", flag.ContinueOnError)
	f.StringVar(&p.out, "out", filepath.Join(os.TempDir(), "sluice-profiles"), "a folder for the profiles")
	f.StringVar(&p.broker, "broker", "nats", "nats or memory")
	f.IntVar(&p.conns, "conns", 10000, "subscribers of the channel that is published to")
	f.IntVar(&p.idle, "idle", 15000, "clients while nothing is published")
	f.IntVar(&p.rate, "rate", 0, "publications a second; 0: one is always under way")
	f.IntVar(&p.seconds, "seconds", 10, "how long each profile takes")
	path := f.String("sluice", "", "the command sluice; built from this repository when empty")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || p.conns < 1 || p.idle < p.conns || p.rate < 0 || p.seconds < 1 || p.broker != "nats" && p.broker != "memory" {
		return compare.ErrUsage
	}
	binary, remove, err := node.Build(ctx, *path)
	if err != nil {
		return err
	}
	defer remove()
	p.binary = binary
	if p.programs, err = load.Compile("websocket", "subscribers"); err != nil {
		return err
	}
	defer p.programs.Remove()
	if err := os.MkdirAll(p.out, 0o750); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./push profile "+strings.Join(args, " "), nil))
	return p.run(ctx, stdout)
}

// run takes all profiles and prints them. Those of locks are of another process, for they cost CPU.
func (p *profiler) run(ctx context.Context, stdout io.Writer) error {
	if err := p.take(ctx, nil, []string{"profile"}, p.idle); err != nil {
		return err
	}
	if err := p.take(ctx, []string{"--profile-locks"}, []string{"mutex", "block"}, 0); err != nil {
		return err
	}
	return p.print(ctx, stdout)
}

// print prints what is in the profiles.
func (p *profiler) print(ctx context.Context, stdout io.Writer) error {
	busy := fmt.Sprintf("%d subscribers of one channel, one publication under way", p.conns)
	if p.rate > 0 {
		busy = fmt.Sprintf("%d subscribers of one channel, %d publications a second", p.conns, p.rate)
	}
	for _, t := range []struct {
		file, title, index, unit string
	}{ // allocations are those between two profiles of the heap
		{"one-profile", "CPU: " + busy, "cpu", "ms"},
		{"idle-profile", fmt.Sprintf("CPU: %d clients, nothing is published", p.idle), "cpu", "ms"},
		{"one-heap", "bytes allocated: " + busy, "alloc_space", "kB"},
		{"one-mutex", "waiting for mutexes: " + busy, "delay", "ms"},
		{"one-block", "waiting for channels and conditions: " + busy, "delay", "ms"},
	} {
		args := []string{"-sample_index=" + t.index, "-unit=" + t.unit}
		if t.file == "one-heap" {
			args = append(args, "-base="+p.file("before-heap"))
		}
		all, err := readTraces(ctx, t.unit, append(args, p.file(t.file))...)
		if err != nil {
			return err
		}
		if err := p.table(t.title, t.unit, t.index == "cpu", all).Text(stdout); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(stdout, "The profiles are in %s, for go tool pprof.\n", p.out)
	return err
}

func (p *profiler) file(name string) string { return filepath.Join(p.out, name+".pb.gz") }

// take starts sluice with more flags and takes profiles called kinds while it has much to do; if idle is not 0 also of the heap,
// before and behind, and then of the CPU while so many clients are idle.
func (p *profiler) take(ctx context.Context, flags, kinds []string, idle int) (err error) {
	n, err := startNode(p.binary, p.broker, usualHistory, flags...)
	if err != nil {
		return err
	}
	defer n.Stop()
	_, port, err := net.SplitHostPort(n.Public)
	if err != nil {
		return err
	}
	client, err := child.Start(ctx, nil, p.programs.Client, port, "centrifuge", fmt.Sprint(dataSize), "1", "1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Stop()) }()
	w := &load.Work{Kind: load.Push, Rate: p.rate, InFlight: 1}
	pair := &load.Pair{Client: client}
	if err := pair.Subscribe(p.conns); err != nil {
		return err
	}
	if _, err := pair.Run(w, time.Second); err != nil { // until buffers and pools are warm
		return err
	}
	if idle > 0 {
		if err := p.fetch(n, "before", []string{heap}); err != nil {
			return err
		}
	}
	ran := make(chan error, 1)
	go func() {
		_, err := pair.Run(w, time.Duration(p.seconds+1)*time.Second)
		ran <- err
	}()
	err = p.fetch(n, "one", kinds)
	if err = errors.Join(err, <-ran); err != nil || idle == 0 {
		return err
	}
	if err := p.fetch(n, "one", []string{heap}); err != nil {
		return err
	}
	if idle > p.conns {
		if err := pair.Subscribe(idle - p.conns); err != nil {
			return err
		}
	}
	return p.fetch(n, "idle", []string{"profile"})
}

// fetch takes profiles of the same seconds, or of the heap as it is.
func (p *profiler) fetch(n *node.Measured, when string, kinds []string) error {
	done := make(chan error, len(kinds))
	for _, kind := range kinds {
		go func() {
			span := fmt.Sprintf("seconds=%d", p.seconds)
			if kind == heap {
				span = "gc=1" // what was allocated since the last collection is not in it otherwise
			}
			text, err := n.Get("/debug/pprof/" + kind + "?" + span)
			if err == nil {
				err = os.WriteFile(p.file(when+"-"+kind), text, 0o600)
			}
			done <- err
		}()
	}
	var err error
	for range kinds {
		err = errors.Join(err, <-done)
	}
	return err
}

// table is what is in a profile.
func (p *profiler) table(title, unit string, cpu bool, all []trace) *report.Table {
	b := breakDown(all, cpu)
	share := func(v float64) string { return fmt.Sprintf("%.1f", 100*v/max(b.total, 1)) }
	t := &report.Table{
		Title: title, Head: []string{"%", unit, "where"},
		Note: fmt.Sprintf("%.0f %s in %d s in all.", b.total, unit, p.seconds),
	}
	if cpu {
		t.Add(share(b.writes), fmt.Sprintf("%.0f", b.writes), "the system call that writes")
		t.Add(share(b.collects), fmt.Sprintf("%.0f", b.collects), "collecting garbage")
	}
	for _, part := range b.rest[:min(len(b.rest), profileTop)] {
		t.Add(share(part.value), fmt.Sprintf("%.0f", part.value), part.function)
	}
	return t
}
