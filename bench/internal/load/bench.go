package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-push/sluice/bench/internal/child"
	"github.com/sluice-push/sluice/bench/internal/server"
)

// Limit is the server that the others are compared with. It is a program in C. Where it can have several threads there is one server for
// each number of them, called c1, c2 and so on.
const Limit = "c"

// IsLimit reports whether a server is the program in C.
func IsLimit(name string) bool {
	threads, ok := strings.CutPrefix(name, Limit)
	return ok && strings.Trim(threads, "0123456789") == ""
}

// Bench measures. Its methods are for one goroutine.
type Bench struct {
	Programs *Programs
	Rounds   int
	Window   time.Duration // what a sample takes, for most cells
	Rest     time.Duration // how long idle sessions are left alone
	Progress io.Writer
	Profiles string // a folder for profiles of the servers; none when empty
	Before   Before
}

// Before starts the servers of another commit, whose names end in [AtBefore].
type Before struct {
	Program string   // this command, built from that commit; empty: this process's own program
	Args    []string // more arguments of the server
}

// AtBefore ends the name of a server of the commit that this one is compared with.
const AtBefore = "@before"

// Start starts a server for a cell; at is where it listens.
func (b *Bench) Start(ctx context.Context, w *Work, name string, at *server.Address) (*child.Process, error) {
	if IsLimit(name) {
		args := slices.Clone(w.Args.Limit)
		if threads := strings.TrimPrefix(name, Limit); threads != "" {
			args = append(args, threads)
		}
		return w.start(ctx, at, b.Programs.Server, args)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server, isBefore := strings.CutSuffix(name, AtBefore)
	all := append([]string{"serve", "-server", server}, w.Args.Go...)
	if isBefore {
		all = append(all, b.Before.Args...)
		if b.Before.Program != "" {
			self = b.Before.Program
		}
	}
	if b.Profiles != "" {
		all = append(all, "-profile", filepath.Join(b.Profiles, w.Name+"-"+name+".prof"))
	}
	return w.start(ctx, at, self, all)
}

// start starts a server, which prints where it listens, or a client, for which at is nil, where the cell wants them to run.
func (w *Work) start(ctx context.Context, at *server.Address, program string, args []string) (*child.Process, error) {
	if w.Pinned {
		processors, err := allowed()
		if err != nil {
			return nil, err
		}
		one := processors[0]
		if at == nil {
			one = processors[len(processors)-1]
		}
		program, args = "taskset", append([]string{"-c", strconv.Itoa(one), program}, args...)
	}
	if at == nil {
		return child.Start(ctx, nil, program, args...)
	}
	return child.Start(ctx, at, program, args...)
}

// allowed returns the processors that this process may use, at least one.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var all []int
	for i := range len(set) * bits.UintSize {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all, nil
}

// patience is how long is waited for deliveries when none comes.
const patience = 10 * time.Second

// Pair is a server with a client that is connected to it. Its methods are for one goroutine.
type Pair struct {
	Server, Client *child.Process
	PID            int // of the process whose memory counts, if that is not Server
}

// Pair starts a server and a client for a cell. No connection is open yet.
func (b *Bench) Pair(ctx context.Context, w *Work, name string) (*Pair, error) {
	var at server.Address
	s, err := b.Start(ctx, w, name, &at)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	client, err := w.start(ctx, nil, b.Programs.Client, append([]string{port, w.proto(name), fmt.Sprint(w.Size)}, w.Client...))
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &Pair{Server: s, Client: client, PID: at.PID}, nil
}

// Stop ends both processes.
func (p *Pair) Stop() error { return errors.Join(p.Client.Stop(), p.Server.Stop()) }

// With runs f with a pair and adds to its error who it was.
func (b *Bench) With(ctx context.Context, w *Work, name string, f func(*Pair) error) error {
	p, err := b.Pair(ctx, w, name)
	if err == nil {
		err = errors.Join(f(p), p.Stop())
	}
	return w.named(name, err)
}

// named adds to an error where it happened.
func (w *Work) named(server string, err error) error {
	if err != nil {
		return fmt.Errorf("cell %s, server %s: %w", w.Name, server, err)
	}
	return nil
}

// Resident returns how many bytes of memory the server has.
func (p *Pair) Resident() (int64, error) {
	pid := p.PID
	if pid == 0 {
		pid = p.Server.PID()
	}
	return child.Resident(pid)
}

// open opens the connections of a cell.
func (p *Pair) open(w *Work) error {
	switch w.Kind {
	case Open:
		return nil
	case Push:
		return p.Subscribe(w.Conns)
	default:
		return p.Connect(w.Conns)
	}
}

// Subscribe opens n connections more and waits until the server has confirmed their subscriptions. It is for cells of kind Push.
func (p *Pair) Subscribe(n int) error { return p.Client.Ask(&struct{}{}, "connect %d", n) }

// Remember lets connections that are opened from now on keep what they need to go on after Storm.
func (p *Pair) Remember() error { return p.Client.Ask(&struct{}{}, "remember") }

// Storm publishes for d, w.Rate times a second; in the middle all connections that subscribe are reset, and come back at once.
func (p *Pair) Storm(w *Work, d time.Duration) (*Load, error) {
	l := new(Load)
	if err := p.Client.Ask(l, "storm %d %d %d", d.Milliseconds(), w.Rate, patience.Milliseconds()); err != nil {
		return nil, err
	}
	return l, l.Wrong()
}

// Narrow gives one in n of the subscribers that come from now on a receive buffer of 8 KiB.
func (p *Pair) Narrow(n int) error { return p.Client.Ask(&struct{}{}, "narrow %d", n) }

// Stall lets these read no more, until Unstall.
func (p *Pair) Stall() error { return p.Client.Ask(&struct{}{}, "stall") }

// Unstall lets those that Stall stopped read again. What they read is not looked at, and it does not matter if the server gave them up.
func (p *Pair) Unstall() error { return p.Client.Ask(&struct{}{}, "unstall") }

// Connect opens n connections, the first ones, and waits until the server has them all.
func (p *Pair) Connect(n int) error {
	if err := p.Client.Ask(&struct{}{}, "connect %d", n); err != nil {
		return err
	}
	return p.Settle(n)
}

// Disconnect closes all connections and waits until the server has none.
func (p *Pair) Disconnect() error {
	if err := p.Client.Ask(&struct{}{}, "close"); err != nil {
		return err
	}
	return p.Settle(0)
}

// Settle waits until the server has n connections.
func (p *Pair) Settle(n int) error {
	looks := time.NewTicker(5 * time.Millisecond) // another process can only be asked again
	defer looks.Stop()
	var s server.Status
	for range 10000 {
		if err := p.Server.Ask(&s, "sample"); err != nil {
			return err
		}
		if s.Conns == n {
			return nil
		}
		<-looks.C
	}
	return fmt.Errorf("the server has %d connections instead of %d", s.Conns, n)
}

// Run makes the client do its work for d and returns what it saw.
func (p *Pair) Run(w *Work, d time.Duration) (*Load, error) {
	l := new(Load)
	ms := d.Milliseconds()
	switch w.Kind {
	case Broadcast:
		return l, p.Client.Ask(l, "broadcast %d", ms)
	case Open:
		if err := p.Client.Ask(l, "open %d %d", ms, w.InFlight); err != nil {
			return nil, err
		}
		return l, p.Settle(0)
	case Push:
		if err := p.Client.Ask(l, "publish %d %d %d %d", ms, w.Rate, w.InFlight, patience.Milliseconds()); err != nil {
			return nil, err
		}
		return l, l.Wrong()
	default:
		return l, p.Client.Ask(l, "run %d 0 %d %d %d %d", ms, w.InFlight, w.Rate, w.Sleep.Microseconds(), w.Every)
	}
}

// Fixed makes the client send a number of messages on each connection.
func (p *Pair) Fixed(w *Work) (*Load, error) {
	l := new(Load)
	err := p.Client.Ask(l, "run 0 %d %d 0 0 0", w.Count, w.InFlight)
	return l, err
}

// Steady measures servers in turn, round after round, each round beginning with another one. Each sample takes d.
func (b *Bench) Steady(ctx context.Context, w *Work, servers []string, d time.Duration) ([]Sample, error) {
	var samples []Sample
	for round := range b.Rounds {
		for i := range servers {
			name := servers[(round+i)%len(servers)]
			b.Say(w, fmt.Sprintf("round %d of %d, %s", round+1, b.Rounds, name))
			err := b.With(ctx, w, name, func(p *Pair) error {
				s, err := p.Sample(w, d)
				s.Cell, s.Server, s.Round = w.Name, name, round+1
				samples = append(samples, s)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	b.Say(w, "")
	return samples, nil
}

// Say shows what is being measured, on a line of its own that the next call overwrites. No text: nothing is.
func (b *Bench) Say(w *Work, text string) {
	if text == "" {
		_, _ = fmt.Fprintf(b.Progress, "\r%79s\r", "")
		return
	}
	_, _ = fmt.Fprintf(b.Progress, "\r%-79s", w.Name+": "+text)
}

// Pause waits for d, or until ctx is done.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
