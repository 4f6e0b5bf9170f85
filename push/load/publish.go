package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/internal/hostclock"
)

// outlet takes publications to the server. A writer has one publication under way at a time; several writers may use one outlet if it says
// so.
type outlet interface {
	// publish returns when the server has answered: nil when it has the publication, a *refusal when it surely has not, anything else when
	// nobody knows. The data is borrowed.
	publish(ctx context.Context, channel string, data []byte) error
	close()
}

// refusal says that a publication was not accepted.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// publisher publishes by the plan. Each writer is a goroutine, which ends with the schedule, or with the context.
type publisher struct {
	plan     *plan
	payloads *payloads
	outlets  []outlet
	patience time.Duration
	watched  []int // by channel: how many processes have clients that read it
	readers  []uint64

	begin, from, to int64 // by clock: the first publication, the first that counts, the end
	courses         []course
	next            atomic.Uint32 // closed loop: the next publication
	first           atomic.Uint32 // the first that counts, and has been published or tried

	sent, counted, refused, unknown, gaveUp atomic.Uint64
	due, expected                           atomic.Uint64 // of those that count
	late                                    atomic.Int64
	reasons                                 count.Words // why publications were refused

	mu      sync.Mutex
	pending map[uint32]*awaited // closed loop: those that are under way

	running sync.WaitGroup
	ended   chan struct{} // closed when all writers have ended
}

// awaited is a publication that not all clients have.
type awaited struct {
	has  []bool // by process
	left int
	all  chan struct{} // closed when none is left
}

func newPublisher(p *plan, payloads *payloads, outlets []outlet) *publisher {
	pub := &publisher{
		plan: p, payloads: payloads, outlets: outlets, patience: p.spec.Patience,
		courses: make([]course, p.streams()), pending: map[uint32]*awaited{}, ended: make(chan struct{}),
		watched: make([]int, p.channels), readers: make([]uint64, p.channels),
	}
	for i := range pub.courses {
		pub.courses[i].From = 1
	}
	pub.first.Store(math.MaxUint32)
	return pub
}

// start begins to publish at a time by clock.
func (p *publisher) start(ctx context.Context, at int64) {
	p.begin = at
	p.from = at + int64(p.plan.spec.Warmup)
	p.to = p.from + int64(p.plan.spec.Duration)
	for w := range p.plan.writers {
		p.running.Go(func() {
			if p.plan.closed() {
				p.writeClosed(ctx, w)
			} else {
				p.writeOpen(ctx, w)
			}
		})
	}
	go func() { // ends with the writers
		p.running.Wait()
		for i := range p.courses {
			if c := &p.courses[i]; c.From == 1 {
				c.From = c.Last + 1 // none has counted
			} else {
				c.From--
			}
		}
		close(p.ended)
	}()
}

// writeOpen publishes what is one writer's, each when it is due or, when the server was slow to answer, at once.
func (p *publisher) writeOpen(ctx context.Context, w int) {
	for k := uint32(0); ; k++ {
		due := p.begin + int64(p.plan.due(k))
		if due >= p.to {
			return
		}
		if p.plan.writerOf(k) != w {
			continue
		}
		if due >= p.from {
			p.due.Add(1)
		}
		if !sleepUntil(ctx, due) {
			return
		}
		if hostclock.Now() <= p.to+int64(p.patience) { // after that it is not published any more, but it was due
			p.put(ctx, w, k, due)
		}
	}
}

// writeClosed publishes one after the other, each when all clients have the one before.
func (p *publisher) writeClosed(ctx context.Context, w int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	if !sleepUntil(ctx, p.begin) {
		return
	}
	for ctx.Err() == nil {
		due := hostclock.Now()
		if due >= p.to {
			return
		}
		if due >= p.from {
			p.due.Add(1)
		}
		k := p.next.Add(1) - 1
		a := p.await(k)
		if p.put(ctx, w, k, due) {
			timer.Reset(p.patience)
			select {
			case <-a.all:
			case <-timer.C:
				p.gaveUp.Add(1)
			case <-ctx.Done():
			}
		} else if !sleepUntil(ctx, due+int64(time.Millisecond)) { // a server that refuses is not to be run over
			return
		}
		p.forget(k)
	}
}

// put publishes, and reports whether the server may have it.
func (p *publisher) put(ctx context.Context, w int, k uint32, due int64) bool {
	channel := p.plan.channelOf(k)
	stream := p.plan.streamOf(channel, w)
	c := &p.courses[stream]
	seq := c.Last + 1
	data := p.payloads.append(nil, stamp{stream: stream, seq: seq, k: k, due: due})
	counts := due >= p.from
	for old := p.first.Load(); counts && k < old && !p.first.CompareAndSwap(old, k); old = p.first.Load() {
	}
	late := hostclock.Now() - due
	for old := p.late.Load(); counts && late > old && !p.late.CompareAndSwap(old, late); old = p.late.Load() {
	}
	err := p.outlets[w%len(p.outlets)].publish(ctx, p.plan.channelName(channel), data)
	if no := new(refusal); errors.As(err, &no) {
		if counts {
			p.refused.Add(1)
		}
		p.reasons.Add(no.why, 1)
		return false
	}
	c.Last = seq
	if counts && c.From == 1 {
		c.From = seq + 1 // one more than it is, since 1 says that there is none yet
	}
	if err != nil {
		c.Holes = append(c.Holes, seq)
		p.unknown.Add(1)
		p.reasons.Add(cause(err), 1)
		return true
	}
	c.Sure, c.Due = seq, due
	p.sent.Add(1)
	if counts {
		p.counted.Add(1)
		p.expected.Add(p.readers[channel])
	}
	return true
}

// await makes a publication one that is waited for.
func (p *publisher) await(k uint32) *awaited {
	n := p.watched[p.plan.channelOf(k)]
	a := &awaited{left: n, all: make(chan struct{})}
	if n == 0 {
		close(a.all)
		return a
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[k] = a
	return a
}

// completed is told that all clients of a process have a publication. It may be told several times.
func (p *publisher) completed(k uint32, process int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.pending[k]
	if a == nil {
		return
	}
	for len(a.has) <= process {
		a.has = append(a.has, false)
	}
	if a.has[process] {
		return
	}
	a.has[process] = true
	if a.left--; a.left == 0 {
		close(a.all)
	}
}

func (p *publisher) forget(k uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, k)
}

// problems says what is worth knowing of how it went.
func (p *publisher) problems() (out []string) {
	if n := p.unknown.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d publications were not answered: nobody knows whether they were published, so nobody is expected to have them", n))
	}
	if n := p.gaveUp.Load(); n > 0 {
		out = append(out, fmt.Sprintf("%d publications did not reach all clients within %v, and were not waited for any longer", n, p.patience))
	}
	if left := int64(p.due.Load()) - int64(p.counted.Load()+p.refused.Load()+p.unknown.Load()); left > 0 { //nolint:gosec // counts
		out = append(out, fmt.Sprintf("%d publications were due and not published: the server, or this host, was too slow", left))
	}
	for why, n := range p.reasons.All() {
		out = append(out, fmt.Sprintf("publishing failed %d times: %s", n, why))
	}
	return out
}

// Timers may be a millisecond late when nothing else happens, so the rest is slept in another way.
const (
	timerUntil = 2 * time.Millisecond
	timerSlack = 1500 * time.Microsecond
)

// sleepUntil sleeps until a time by clock, and reports whether it came before the context's end.
func sleepUntil(ctx context.Context, at int64) bool {
	for {
		left := time.Duration(at - hostclock.Now())
		switch {
		case ctx.Err() != nil:
			return false
		case left <= 0:
			return true
		case left <= timerUntil:
			hostclock.Nap(left)
			continue
		}
		timer := time.NewTimer(left - timerSlack)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
