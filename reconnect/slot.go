package reconnect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluice-push/sluice/session"
)

// How a slot moves. One party at a time has the turn, and only who has it moves the slot on:
//
//	the teller   has told State of a change, and does what follows from it: arms the timer, starts to dial
//	the timer    fires, and the slot is connecting
//	the dialer   a goroutine; it ends when the session is open, or the attempt has failed
//	the session  its Close hook says that it has ended
//	nobody       the slot was closed or has failed
//
// Who ends a slot does not move it, but notes why (closing) and hurries the one who has the turn: stops the timer, cancels the dialer,
// aborts the session. The exception is a timer that was stopped in time, whose turn is then the teller's.
//
// Changes are queued for State, and told by whoever comes when nobody is telling; callers of the pool's methods leave it to a
// goroutine, so that they never run State themselves. Since what follows a change happens after it was told, at most four are queued,
// however long State takes: Open, Draining, BackingOff or Closed, and one that is being told.

// slot is a place for one session.
type slot struct {
	// Set when made.
	p    *Pool
	id   int
	home place  // what it was made for, whatever address it is at now
	hash uint64 // of home

	// Guarded by the pool's mutex.
	address string
	turn    turn
	closing error // why it ends, or nil
	state   State // of the last change that was queued
	queue   []Event
	telling bool
	timer   *time.Timer // has the turn
	link    *link       // the last session, or attempt; nil at first
	back    backoff
	failed  int  // attempts in a row
	failing int  // those of them at this address
	opened  bool // a session was open before
	cause   error
}

// turn is who may move a slot on.
type turn uint8

const (
	turnTeller turn = iota
	turnTimer
	turnDialer
	turnSession
	turnNobody
)

// sayLocked queues a change. If it returns true the caller has to see to it that tell is called, without the mutex.
func (sl *slot) sayLocked(ev Event) bool {
	ev.Slot, ev.Address, ev.Attempt = sl.id, sl.address, sl.failed
	if sl.state = ev.State; ev.State.last() {
		sl.turn = turnNobody
	}
	sl.queue = append(sl.queue, ev)
	sl.p.changedLocked()
	if sl.telling {
		return false
	}
	sl.telling = true
	return true
}

// tell tells what is queued, and does what follows.
func (sl *slot) tell() {
	for {
		sl.p.mu.Lock()
		if len(sl.queue) == 0 {
			sl.queue, sl.telling = nil, false
			sl.p.mu.Unlock()
			return
		}
		ev := sl.queue[0]
		sl.queue = sl.queue[1:]
		sl.p.mu.Unlock()
		sl.call(ev)
		if sl.follow(ev) {
			return
		}
	}
}

// call calls State. Should that end the goroutine, another goes on.
func (sl *slot) call(ev Event) {
	p := sl.p
	if p.o.State == nil {
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		_ = p.panicked("state", v)
		if v == nil { // runtime.Goexit
			go func() {
				if !sl.follow(ev) {
					sl.tell()
				}
			}()
		}
	}()
	p.o.State(ev)
	returned = true
}

// follow does what follows from a change that was told, and reports whether it was the last.
func (sl *slot) follow(ev Event) (last bool) {
	p := sl.p
	switch ev.State {
	case Connecting:
		p.mu.Lock()
		if sl.closing != nil {
			_ = sl.sayLocked(sl.closedLocked()) // who calls is telling
		} else {
			ctx, cancel := context.WithCancelCause(context.Background())
			l := newLink(sl, cancel)
			before := sl.link
			sl.link, sl.turn = l, turnDialer
			p.stats.Dials++
			go sl.dial(ctx, l, before)
		}
		p.mu.Unlock()
	case BackingOff:
		p.mu.Lock()
		if sl.closing != nil {
			_ = sl.sayLocked(sl.closedLocked())
		} else {
			sl.turn = turnTimer
			sl.timer = time.AfterFunc(ev.Delay, sl.wake)
		}
		p.mu.Unlock()
	case Closed, Failed:
		go sl.finish()
		return true
	}
	return false
}

// closedLocked is the change that ends a slot that is closing.
func (sl *slot) closedLocked() Event { return Event{State: Closed, Err: sl.closing} }

// wake is called by the timer.
func (sl *slot) wake() {
	p := sl.p
	p.mu.Lock()
	sl.turn, sl.timer = turnTeller, nil
	ev := Event{State: Connecting}
	if sl.closing != nil {
		ev = sl.closedLocked()
	}
	mine := sl.sayLocked(ev)
	p.mu.Unlock()
	if mine {
		sl.tell()
	}
}

// dial is the goroutine that makes a session. before is the link before it, whose session is given the time to be quite gone.
func (sl *slot) dial(ctx context.Context, l, before *link) {
	var err error
	returned := false
	defer func() {
		if !returned {
			err = sl.p.panicked("dial", recover())
		}
		l.cancel(err)
		sl.settle(l, err)
	}()
	if before != nil {
		before.wait()
	}
	err = l.begin(ctx)
	returned = true
}

// settle ends an attempt: with a session that may be picked, or without one.
func (sl *slot) settle(l *link, err error) {
	p := sl.p
	p.mu.Lock()
	if err == nil && sl.closing == nil && !l.over {
		l.ready, l.since = true, time.Now()
		sl.turn, sl.cause = turnSession, nil
		p.stats.Opened++
		if sl.opened {
			p.stats.Reconnects++
		}
		sl.opened = true
		mine := sl.sayLocked(Event{State: Open, Session: l.s})
		p.mu.Unlock()
		if mine {
			sl.tell()
		}
		return
	}
	switch {
	case l.over && (err == nil || errors.Is(err, context.Canceled)): // because of that
		err = l.reason
	case err == nil:
		err = sl.closing
	}
	p.stats.Failures++
	p.mu.Unlock()
	l.quit(err)
	sl.lost(l, err)
}

// lost moves the slot on after its session has ended, or could not be made, for the reason err.
func (sl *slot) lost(l *link, err error) {
	p := sl.p
	p.mu.Lock()
	sl.turn, sl.cause = turnTeller, err
	ev := Event{State: BackingOff, Err: err}
	if l.ready {
		ev.Session = l.s
	}
	if l.ready && time.Since(l.since) >= p.o.Proven {
		sl.back.reset()
		sl.failed, sl.failing = 0, 0
	} else {
		sl.failed++
		sl.failing++
	}
	if p.o.MaxAttempts > 0 && sl.failed >= p.o.MaxAttempts || errors.Is(err, session.ErrClientClosed) {
		ev.State = Failed
	}
	if ev.State == BackingOff && sl.closing == nil {
		sl.moveLocked()
		bound := sl.back.next()
		p.mu.Unlock()
		p.jitter(bound, func(d time.Duration) {
			ev.Delay = d
			p.mu.Lock()
			sl.lostLocked(ev)
		})
		return
	}
	sl.lostLocked(ev)
}

// lostLocked tells what became of a slot that has lost its session. It releases the mutex.
func (sl *slot) lostLocked(ev Event) {
	if sl.closing != nil {
		ev = Event{State: Closed, Err: sl.closing, Session: ev.Session}
	}
	mine := sl.sayLocked(ev)
	address, failed := sl.address, sl.failed
	sl.p.mu.Unlock()
	if ev.State == Failed {
		sl.p.o.Logger.Warn("reconnect: slot gave up", "slot", sl.id, "address", address, "attempts", failed, "error", ev.Err)
	}
	if mine {
		sl.tell()
	}
}

// moveLocked has the next attempt made elsewhere if this address has failed too often.
func (sl *slot) moveLocked() {
	if m := sl.p.o.MoveAfter; m == 0 || sl.failing < m {
		return
	}
	sl.address, sl.failing = next(sl.p.addresses, sl.address), 0
}

// next returns the address after a in a ring, or the first if a is not there.
func next(ring []string, a string) string {
	for i := range ring {
		if ring[i] == a {
			return ring[(i+1)%len(ring)]
		}
	}
	return ring[0]
}

// finish is the end of a slot: its last session is gone when it returns.
func (sl *slot) finish() {
	p := sl.p
	p.mu.Lock()
	l := sl.link
	p.mu.Unlock()
	if l != nil {
		l.wait()
	}
	p.mu.Lock()
	delete(p.leaving, sl)
	p.lessLocked()
	p.mu.Unlock()
}

// shutLocked ends the slot for a reason: a session that is open at once, or gently. It returns what has to be done without the mutex, or
// nil.
func (sl *slot) shutLocked(cause error, gently bool) func() {
	first := sl.closing == nil
	if first {
		sl.closing = cause
	}
	switch sl.turn {
	case turnTimer:
		if sl.timer.Stop() {
			sl.timer, sl.turn = nil, turnTeller
			if sl.sayLocked(sl.closedLocked()) {
				go sl.tell()
			}
		}
	case turnDialer:
		sl.link.cancel(cause)
	case turnSession:
		l := sl.link
		if l.over {
			return nil
		}
		if gently {
			if first {
				l.drainLocked()
			}
			return nil
		}
		return func() { l.s.Abort(cause) }
	}
	return nil
}

// panicked counts and logs a panic in a function of the options, and returns it as an error. v is nil if the function ended its
// goroutine.
func (p *Pool) panicked(name string, v any) error {
	err := &session.PanicError{Value: v, Stack: debug.Stack()}
	p.mu.Lock()
	p.stats.Panics++
	p.mu.Unlock()
	p.o.Logger.Error("reconnect: function panicked", "function", name, "panic", fmt.Sprint(v), "stack", string(err.Stack))
	return err
}
