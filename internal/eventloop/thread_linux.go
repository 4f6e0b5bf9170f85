package eventloop

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/timingwheel"
)

// Thread is the goroutine of a loop, until the loop is handed off to another one.
type Thread[M any] struct {
	// In is for what a member reads in its dispatch, and Out for what it writes: see Buffers.
	In  *buffer.Buffer
	Out *buffer.Batch

	pools   *buffer.Pools
	seq     atomic.Uint64                   // odd during Dispatch of current; grows also from thread to thread
	current atomic.Pointer[Registration[M]] // valid while seq is odd

	os OSThread

	// Owned by the thread, and by its successor once seq says handedOff.
	events    *EventBuffer
	acceptors []*Acceptor // that have connections
	work      []job[M]
	next      int // the first job that has not begun
}

// job is a member with its events.
type job[M any] struct {
	member M
	events Events
}

// handedOff is added to the sequence number of a thread that has lost its loop.
const handedOff = 1 << 63

// Buffers makes In and Out ready for a dispatch. A member that keeps one of them sets it to nil.
func (t *Thread[M]) Buffers() {
	if t.Out == nil {
		t.Out = t.pools.Batch()
	}
	if t.In == nil {
		t.In = t.pools.Shared.Get()
		t.In.Own()
	}
}

// giveBack gives the buffers back.
func (t *Thread[M]) giveBack() {
	t.In.Return()
	if t.Out != nil {
		t.pools.PutBatch(t.Out)
	}
}

// successor gives the loop to a new thread, with the work that t has left.
func (l *Loop[M]) successor(t *Thread[M]) {
	next := &Thread[M]{pools: l.cfg.Pools, events: NewEventBuffer(maxEvents), work: make([]job[M], 0, maxEvents)}
	next.Buffers()
	next.work, next.os.YieldTimer = append(next.work, t.work[t.next:]...), t.os.YieldTimer
	next.seq.Store((t.seq.Load()&^handedOff + 1) &^ 1)
	l.thread.Store(next)
	l.running.Add(1)
	go l.run(next)
}

// run polls and dispatches until the loop ends or is handed off.
func (l *Loop[M]) run(t *Thread[M]) {
	defer l.running.Done()
	defer l.ended(t)
	t.os.SetLocked(true)
	defer t.os.SetLocked(false)
	l.watchdog.Reset(l.cfg.Clock())
	for {
		if !l.process(t) {
			return
		}
		if !l.collect(t) {
			_ = errors.Join(l.poll.Close(), l.watchdog.Close())
			return
		}
		t.accept()
	}
}

// process dispatches the collected work, and reports whether the loop still is the thread's.
func (l *Loop[M]) process(t *Thread[M]) bool {
	for t.next < len(t.work) {
		j := &t.work[t.next]
		if t.next++; t.next%checkEvery == 0 {
			l.watchdog.Reset(l.cfg.Clock())
		}
		t.current.Store(j.member.Registration())
		seq := t.seq.Add(1)
		j.member.Dispatch(t, j.events)
		if !t.seq.CompareAndSwap(seq, seq+1) {
			t.giveBack()
			return false // ended does the rest
		}
	}
	t.current.Store(nil)
	clear(t.work)
	t.work, t.next = t.work[:0], 0
	return true
}

// collect collects work, and waits for some if there is none. It returns false when the loop has ended.
func (l *Loop[M]) collect(t *Thread[M]) bool {
	var none M // what an acceptor has in the place of a member
	if err := l.poll.Poll(t.events); err == nil && t.events.Len() == 0 && l.wait(t) {
		return false
	}
	now := l.cfg.Clock()
	if t.os.Due(now) {
		now = t.os.Yield(now, l.cfg.Clock)
	}
	l.now.Store(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = false
	l.watchdog.Reset(now)
	for i := range t.events.Len() {
		ev := t.events.At(i)
		if ev.IsWake() {
			l.poll.ClearWake()
			continue
		}
		switch m, ok := l.members.At(ev.ID()); {
		case m != none:
			t.work = append(t.work, job[M]{m, ev.Ready})
		case ok && l.acceptors[ev.ID()] != nil:
			t.acceptors = append(t.acceptors, l.acceptors[ev.ID()])
		}
	}
	for _, m := range l.posted {
		m.Registration().posted = false
		t.work = append(t.work, job[M]{m, Posted})
	}
	clear(l.posted)
	l.posted = l.posted[:0]
	l.wheel.Advance(now, func(n *timingwheel.Node[M]) { t.work = append(t.work, job[M]{n.Value, TimerFired}) })
	return !l.stopping
}

// wait waits in the kernel until there is something to do. It reports whether the loop has ended.
func (l *Loop[M]) wait(t *Thread[M]) (over bool) {
	if now := l.cfg.Clock(); t.os.Soon(now) {
		t.os.Yield(now, l.cfg.Clock)
		return false
	}
	l.mu.Lock()
	if l.stopping || len(l.posted) > 0 {
		defer l.mu.Unlock()
		return l.stopping
	}
	wait := time.Duration(-1)
	l.wakeAt = 0
	if at, ok := l.wheel.Next(); ok {
		l.wakeAt = max(at, 1)
		wait = max(0, time.Duration(at-l.cfg.Clock()))
	}
	l.idle = true
	l.mu.Unlock()
	// While handlers sleep, the thread waits in the runtime's poller, which looks at the runtime's timers when it returns. Otherwise those
	// would fire up to a millisecond late.
	parks := l.visited.Swap(false) || l.blocked.Load() > 0 || l.offload.Offloaded(l.cfg.Clock())
	if t.os.SetLocked(!parks); !parks || l.poll.Park(t.events, wait) != nil { // Park fails if there is no descriptor
		_ = l.poll.Wait(t.events, wait) // an error, for which there is no reason, is an empty wait
	} else {
		t.os.Parked(l.cfg.Clock())
	}
	t.os.SetLocked(!l.offload.Offloaded(l.cfg.Clock())) // the wait may have been long
	return false
}

// accept accepts connections of the listeners that have some.
func (t *Thread[M]) accept() {
	for i, a := range t.acceptors {
		a.Accept()
		t.acceptors[i] = nil
	}
	t.acceptors = t.acceptors[:0]
}

// ended is the end of a thread. If a Dispatch has ended its goroutine, the loop still has to run.
func (l *Loop[M]) ended(t *Thread[M]) {
	seq := t.seq.Load()
	if seq%2 == 0 {
		return
	}
	r := t.current.Load()
	if seq&handedOff == 0 && t.seq.CompareAndSwap(seq, seq|handedOff) {
		l.successor(t)
	} else {
		l.blocked.Add(-1)
		l.mu.Lock()
		delete(l.lost, r)
		l.mu.Unlock()
	}
	r.timer.Value.DispatchEnded()
}
