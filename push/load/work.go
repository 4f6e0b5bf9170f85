package load

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// lookInterval is how often clients say how far they have come.
const lookInterval = 250 * time.Millisecond

// Work runs a part of the clients of a run in a process of its own: it is what the command has to call that Options.Worker returns. It
// reads what it is to do from in, writes what comes of it to out, and returns when it is told to, or when in ends, because then the run is over.
// Nothing else may be written to out. In and out belong to Work until it returns; one more Read of in may then still be under way.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dec := gob.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	var j job
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("load: read what to do: %w", err)
	}
	orders := make(chan *order, maxOrders)
	go func() { // ends with in, or with ctx
		defer close(orders)
		for {
			o := new(order)
			if dec.Decode(o) != nil {
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := &worker{group: newGroup(&j), out: newCourier[report](out), ctx: ctx}
	defer w.group.close()
	return w.run(orders)
}

// maxOrders is more than a run gives, so that nobody waits for them to be taken while somebody else waits for what is reported.
const maxOrders = 16

// worker carries out orders. What takes long it does on goroutines, of which it is the owner.
type worker struct {
	group *group
	out   *courier[report]
	ctx   context.Context // of Work

	coming  sync.WaitGroup // clients are connecting, for the first time or again
	stop    context.CancelFunc
	waiting sync.WaitGroup // draining
	enough  context.CancelFunc

	courses []course
	first   uint32
}

func (w *worker) run(orders <-chan *order) error {
	defer w.settle()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		var err error
		select {
		case o, ok := <-orders:
			switch {
			case !ok && w.ctx.Err() == nil:
				return errors.New("load: the run has ended without a word")
			case !ok:
				return w.ctx.Err()
			case o.Do == doClose:
				return w.conclude()
			}
			w.do(o)
		case <-w.group.bell:
			err = w.out.send(&report{Done: w.group.takeDone()})
		case <-tick.C:
			w.group.recheck()
			err = w.out.send(&report{Look: w.group.look()})
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// settle ends what is under way, and waits for it.
func (w *worker) settle() {
	for _, cancel := range []context.CancelFunc{w.stop, w.enough} {
		if cancel != nil {
			cancel()
		}
	}
	w.coming.Wait()
	w.waiting.Wait()
}

// do begins to carry out an order.
func (w *worker) do(o *order) {
	g := w.group
	switch o.Do {
	case doConnect:
		w.come(func(ctx context.Context) {
			g.connect(ctx)
			_ = w.out.send(&report{Connected: g.connected()}) // a run that does not listen any more ends this
			g.usher(ctx)
		})
	case doMeasure:
		g.measureTo.Store(o.To)
		g.measureFrom.Store(o.From)
	case doStall:
		g.stall()
	case doFree:
		g.freed()
	case doStorm:
		w.come(g.storm)
	case doDrain:
		g.calm()
		w.courses, w.first = o.Courses, o.First
		ctx, cancel := context.WithCancel(w.ctx)
		w.enough = cancel
		w.waiting.Go(func() {
			g.drain(ctx, o.Courses)
			_ = w.out.send(&report{Drained: true}) // as above
		})
	case doEnough:
		if w.stop != nil {
			w.stop()
		}
		if w.enough != nil {
			w.enough()
		}
	case doClose: // is the end of run
	}
}

// come has clients connect.
func (w *worker) come(f func(context.Context)) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.stop = cancel
	w.coming.Go(func() { f(ctx) })
}

// conclude says what came of it.
func (w *worker) conclude() error {
	w.settle()
	g := w.group
	s := g.share(w.courses, w.first)
	if g.stalling.Load() {
		s.Stalled = g.release(w.ctx)
		s.Cut, s.Reasons = int(g.cut.Load()), g.reasons.All()
	}
	g.close()
	return w.out.send(&report{Share: s})
}

// connected says who came in.
func (g *group) connected() *connected {
	c := &connected{Clients: int(g.here.Load()), Joined: g.lastJoin.Load(), Reasons: g.reasons.All()}
	for i := range g.readers {
		c.Readers = append(c.Readers, g.readers[i].Load())
	}
	return c
}

// recheck tells again of the latest publications that all clients have: they may have become all because one that had not is gone.
func (g *group) recheck() {
	if !g.plan.closed() {
		return
	}
	end := g.seen.Load()
	for k := end - min(end, uint32(2*g.plan.spec.Window)); k < end; k++ { //nolint:gosec // a small number
		if readers := g.readers[g.plan.channelOf(k)].Load(); int64(g.tracks.at(k).count.Load()) >= readers {
			g.completed(k)
		}
	}
}
