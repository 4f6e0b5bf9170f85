// Command hostile shows what clients that mean harm cost a server, and what others notice of them: threads, memory and descriptors of the server,
// and how long an innocent client waits for an answer and for a new connection, before, during and after an attack.
//
//	go run ./hostile
//	go run ./hostile -attack unread -clients 12000 -servers sluice
//
// The attacks: unread is many connections that ask and do not read the answers; names is two that subscribe to ever new channels and leave them. The
// others are of strangers, on the command sluice: tokens are bad tokens; halfopen, halftls and slowtls are connections that send nothing, half of what
// begins a TLS handshake, or that byte by byte. They have a phase more, in which another node of the same machine is attacked: it shows what the
// attackers themselves take from the innocent client.
// Servers and attackers are processes of their own, and the innocent client is this one. Linux is needed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/node"
	"github.com/sluice-push/sluice/bench/internal/program"
	"github.com/sluice-push/sluice/bench/internal/report"
)

func main() { program.Main("hostile", run) }

// run is main, or one of the processes that it starts.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			return serve(args[1:], os.Stdin, stdout)
		case "attack":
			return attack(args[1:], os.Stdin, stdout)
		case "besiege":
			return besiege(args[1:], os.Stdin, stdout)
		}
	}
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	names := flags.String("servers", strings.Join(serverNames(), ","), "which servers")
	attacks := flags.String("attack", "unread,names,"+strings.Join(siegeKinds(), ","), "which attacks")
	clients := flags.String("clients", "2000,12000", "how many attackers do not read")
	length := flags.Duration("length", 5*time.Second, "how long each phase is measured")
	strangers := flags.Int("strangers", 10_000, "how many connections strangers hold")
	rate := flags.Int("rate", 1000, "how many bad tokens strangers present a second; 0: as many as they can")
	binary := flags.String("sluice", "", "the command sluice; built from this repository when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	path, remove, err := node.Build(ctx, *binary)
	if err != nil {
		return err
	}
	defer remove()
	_, _ = fmt.Fprintf(stdout, "%v\n", report.ThisMachine("go run ./hostile "+strings.Join(args, " "), nil))
	for _, kind := range strings.Split(*attacks, ",") {
		if slices.Contains(siegeKinds(), kind) {
			table, err := (&siege{kind: kind, strangers: *strangers, rate: *rate, length: *length, sluice: path}).run(ctx)
			if err == nil {
				err = table.Text(stdout)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			continue
		}
		sizes := strings.Split(*clients, ",")
		if kind == "names" {
			sizes = []string{"2"}
		}
		for _, size := range sizes {
			n, err := strconv.Atoi(size)
			if err != nil {
				return err
			}
			t := &trial{kind: kind, clients: n, length: *length, sluice: path}
			table, err := t.run(ctx, strings.Split(*names, ","))
			if err != nil {
				return err
			}
			if err := table.Text(stdout); err != nil {
				return err
			}
		}
	}
	return nil
}

// trial is one attack on each server.
type trial struct {
	kind    string
	clients int
	length  time.Duration
	sluice  string
}

var phases = [...]string{"before", "during", "after"}

func (t *trial) run(ctx context.Context, servers []string) (*report.Table, error) {
	table := &report.Table{
		Title: fmt.Sprintf("%s: %d clients", t.kind, t.clients),
		Head: []string{
			"server", "", "threads", "MB", "KB a client", "descriptors", "innocent: p50 ms", "p99", "max", "connect p50", "p99", "refused",
		},
		Note: "Memory is resident at the end of the phase. Connecting includes the first answer. Write time-outs are a minute, so that nobody is " +
			"ended in between; the kernel's send buffers are 64 KiB.",
	}
	for _, name := range servers {
		if t.kind == "names" && name != "sluice" {
			continue // others have no channels
		}
		if err := t.one(ctx, name, table); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return table, nil
}

// attackersEach is how many connections one process makes.
const attackersEach = 4000

func (t *trial) one(ctx context.Context, name string, table *report.Table) (err error) {
	target, err := startServer(ctx, name, t.sluice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.stop()) }()
	var attackers []*child.Process
	defer func() {
		for _, a := range attackers {
			err = errors.Join(err, a.Stop())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var before int64
	for _, phase := range phases {
		switch phase {
		case "during":
			for left := t.clients; left > 0; left -= attackersEach {
				a, err := child.Start(ctx, new(started), self, "attack", t.kind, target.proto, target.addr, strconv.Itoa(min(left, attackersEach)))
				if err != nil {
					return err
				}
				attackers = append(attackers, a)
			}
		case "after":
			for _, a := range attackers {
				err = errors.Join(err, a.Stop())
			}
			if attackers = nil; err != nil {
				return err
			}
		}
		in, err := endure(ctx, target, t.length)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		u, err := target.usage()
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		if phase == "before" {
			before = u.resident
		}
		each := ""
		if phase == "during" && t.clients > 2 {
			each = fmt.Sprintf("%.0f", float64(u.resident-before)/1000/float64(t.clients))
		}
		table.Add(name, phase, strconv.Itoa(u.threads), fmt.Sprint(u.resident/1e6), each, strconv.Itoa(u.descriptors),
			ms(in.answers, 50), ms(in.answers, 99), ms(in.answers, 100), ms(in.connects, 50), ms(in.connects, 99), strconv.Itoa(in.refused))
	}
	return nil
}

// ms is a percentile in milliseconds.
func ms(all []time.Duration, percent int) string {
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(percentile(all, percent))/1e6)
}

// percentile returns a percentile, 0 of none.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// started is the first line of a process.
type started struct {
	Addr string `json:"addr"`
}
