package loadtest

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/delivery"
	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/process"
)

// statusInterval is how often a worker reports its status.
const statusInterval = 250 * time.Millisecond

// Work runs a part of the clients of a run. The command that Options.Worker returns must call it, with its standard input and output. Work reads
// commands from in and writes reports to out. It returns when a command says so, or when in ends, because then the run is over.
//
// Nothing else may be written to out. Work owns in and out until it returns. One Read of in may still be under way then.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dec := gob.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	var j job
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("loadtest: read the command: %w", err)
	}
	commands := make(chan *command, maxCommands)
	go func() { // ends with in, or with ctx
		defer close(commands)
		for {
			c := new(command)
			if dec.Decode(c) != nil {
				return
			}
			select {
			case commands <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := &worker{group: newGroup(&j), out: process.NewMessages(out), ctx: ctx}
	defer w.group.close()
	return w.run(commands)
}

// maxCommands is more than the number of commands of a run, so that reading commands never blocks. Otherwise the run could wait to send a
// command while the worker waits to send a report.
const maxCommands = 16

// worker executes the commands of a run for one group of clients. It connects and drains on goroutines of its own.
type worker struct {
	group *group
	out   *process.Messages
	ctx   context.Context // of Work

	connecting     sync.WaitGroup     // goroutines that connect clients, for the first time or again
	stopConnecting context.CancelFunc // ends the latest of them; nil if there is none
	draining       sync.WaitGroup     // the goroutine of cmdDrain
	stopDraining   context.CancelFunc // ends it; nil if there is none

	published []delivery.Published // by stream; set by cmdDrain
	first     uint32               // likewise: the first publication that counts
}

// run executes commands and sends reports until cmdFinish, or the end of commands or ctx.
func (w *worker) run(commands <-chan *command) error {
	defer w.stopTasks()
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		var err error
		select {
		case c, ok := <-commands:
			switch {
			case !ok && w.ctx.Err() == nil:
				return errors.New("loadtest: the main process ended without a command")
			case !ok:
				return w.ctx.Err()
			case c.Kind == cmdFinish:
				return w.finish()
			}
			w.execute(c)
		case <-w.group.doneReady:
			err = w.out.Send(&report{Done: w.group.takeDone()})
		case <-tick.C:
			w.group.recheck()
			err = w.out.Send(&report{Status: w.group.status()})
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// stopTasks stops the goroutines of the worker and waits for them.
func (w *worker) stopTasks() {
	for _, cancel := range []context.CancelFunc{w.stopConnecting, w.stopDraining} {
		if cancel != nil {
			cancel()
		}
	}
	w.connecting.Wait()
	w.draining.Wait()
}

// execute starts to execute a command. It does not wait for a task that takes long.
func (w *worker) execute(c *command) {
	g := w.group
	switch c.Kind {
	case cmdConnect:
		w.startConnecting(func(ctx context.Context) {
			g.connect(ctx)
			_ = w.out.Send(&report{Connected: g.connected()}) // if the run has gone, reading commands ends the worker
			g.rejoinCutClients(ctx)
		})
	case cmdMeasure:
		g.measureTo.Store(c.To)
		g.measureFrom.Store(c.From)
	case cmdStall:
		g.stall()
	case cmdResumeReading:
		g.resumeReading()
	case cmdStorm:
		w.startConnecting(g.storm)
	case cmdDrain:
		g.stopResets()
		w.published, w.first = c.Published, c.First
		ctx, cancel := context.WithCancel(w.ctx)
		w.stopDraining = cancel
		w.draining.Go(func() {
			g.drain(ctx, c.Published)
			_ = w.out.Send(&report{Drained: true}) // as above: an error needs no handling
		})
	case cmdStopWaiting:
		if w.stopConnecting != nil {
			w.stopConnecting()
		}
		if w.stopDraining != nil {
			w.stopDraining()
		}
	case cmdFinish: // handled in run
	}
}

// startConnecting calls f, which connects clients, on a goroutine. The context of f ends with cmdStopWaiting.
func (w *worker) startConnecting(f func(context.Context)) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.stopConnecting = cancel
	w.connecting.Go(func() { f(ctx) })
}

// finish sends the result of the worker.
func (w *worker) finish() error {
	w.stopTasks()
	g := w.group
	s := g.result(w.published, w.first)
	if g.stalling.Load() {
		s.Stalled = g.drainStalled(w.ctx)
		s.Cut, s.Reasons = int(g.cut.Load()), g.reasons.All()
	}
	g.close()
	if err := w.out.Send(&report{Result: s}); err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	return nil
}

// connected returns how many clients have joined, and why the others failed.
func (g *group) connected() *connected {
	c := &connected{Clients: int(g.subscribedCount.Load()), Joined: g.lastSubscribedAt.Load(), Reasons: g.reasons.All()}
	for i := range g.readers {
		c.Readers = append(c.Readers, g.readers[i].Load())
	}
	return c
}

// recheck reports the latest complete publications again. If the only client that lacks one goes away, it becomes complete without a delivery.
func (g *group) recheck() {
	if !g.plan.isClosedLoop() {
		return
	}
	end := g.seen.Load()
	for k := end - min(end, uint32(2*g.plan.spec.Window)); k < end; k++ { //nolint:gosec // a small number
		if readers := g.readers[g.plan.channelOf(k)].Load(); int64(g.pubStats.At(k).Count()) >= readers {
			g.completed(k)
		}
	}
}
