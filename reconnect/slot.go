package reconnect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluice-push/sluice/session"
)

// Each slot is a state machine. It has one owner at a time, and only the owner moves it to the next state:
//
//	the notifier  has called State for a change, and starts what follows: the timer or the dialer
//	the timer     fires, and the slot is connecting
//	the dialer    a goroutine; it ends when the session is open, or the attempt has failed
//	the session   its Close callback reports its end
//	none          the slot is closed or has failed
//
// A goroutine that closes a slot does not move it. It records the reason (closing) and interrupts the owner: it stops the timer, cancels the
// dialer or aborts the session. The exception is a timer that was stopped in time, because it can no longer move the slot: the notifier becomes
// the owner.
//
// Changes are queued for State. A goroutine that queues a change also calls State, unless another goroutine is doing so. Methods of the pool
// start a new goroutine for that, so that they never run State themselves. The next change happens only after State has been called for the last
// one. So at most four changes are queued, however long State takes: Open, Draining, BackingOff or Closed, and one in progress.

// slot is the place of one session of the pool, and makes a new session when the last has ended.
type slot struct {
	// Set by addLocked.
	p    *Pool
	id   int
	home place  // the address and number that it was made for; address may have changed since
	hash uint64 // the hash of home

	// Guarded by the pool's mutex.
	address   string
	owner     owner
	closing   error // why the slot ends, or nil
	state     State // the state of the last queued change
	queue     []Event
	notifying bool
	timer     *time.Timer // set while it is the owner
	link      *link       // the last attempt; nil before the first
	back      backoff
	failed    int  // attempts that have failed in a row
	failing   int  // the part of failed at this address
	opened    bool // a session was open before
	cause     error
}

// owner is the party that may move a slot to its next state.
type owner uint8

const (
	ownerNotifier owner = iota
	ownerTimer
	ownerDialer
	ownerSession
	ownerNone
)

// postLocked queues a change for State. If it returns true, the caller must have notify called, without the mutex.
func (sl *slot) postLocked(ev Event) bool {
	ev.Slot, ev.Address, ev.Attempt = sl.id, sl.address, sl.failed
	if sl.state = ev.State; ev.State.last() {
		sl.owner = ownerNone
	}
	sl.queue = append(sl.queue, ev)
	sl.p.changedLocked()
	if sl.notifying {
		return false
	}
	sl.notifying = true
	return true
}

// notify calls State for the queued changes, and starts what follows from each.
func (sl *slot) notify() {
	for {
		sl.p.mu.Lock()
		if len(sl.queue) == 0 {
			sl.queue, sl.notifying = nil, false
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

// call calls State. If State ends the goroutine, a new goroutine continues.
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
					sl.notify()
				}
			}()
		}
	}()
	p.o.State(ev)
	returned = true
}

// follow starts what follows from a change after State has returned. It reports whether the change was the last.
func (sl *slot) follow(ev Event) (last bool) {
	p := sl.p
	switch ev.State {
	case Connecting:
		p.mu.Lock()
		if sl.closing != nil {
			_ = sl.postLocked(sl.closedLocked()) // the calling goroutine is in notify, which sees the change
		} else {
			ctx, cancel := context.WithCancelCause(context.Background())
			l := newLink(sl, cancel)
			before := sl.link
			sl.link, sl.owner = l, ownerDialer
			p.stats.Dials++
			go sl.dial(ctx, l, before)
		}
		p.mu.Unlock()
	case BackingOff:
		p.mu.Lock()
		if sl.closing != nil {
			_ = sl.postLocked(sl.closedLocked())
		} else {
			sl.owner = ownerTimer
			sl.timer = time.AfterFunc(ev.Delay, sl.wake)
		}
		p.mu.Unlock()
	case Closed, Failed:
		go sl.finish()
		return true
	}
	return false
}

// closedLocked returns the change that ends a closing slot.
func (sl *slot) closedLocked() Event { return Event{State: Closed, Err: sl.closing} }

// wake begins the next attempt; the timer calls it.
func (sl *slot) wake() {
	p := sl.p
	p.mu.Lock()
	sl.owner, sl.timer = ownerNotifier, nil
	ev := Event{State: Connecting}
	if sl.closing != nil {
		ev = sl.closedLocked()
	}
	mine := sl.postLocked(ev)
	p.mu.Unlock()
	if mine {
		sl.notify()
	}
}

// dial is the goroutine that makes a session. First it waits until the session of the link before has released everything.
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

// settle ends an attempt. It succeeds if err is nil and neither the session nor the slot has ended meanwhile.
func (sl *slot) settle(l *link, err error) {
	p := sl.p
	p.mu.Lock()
	if err == nil && sl.closing == nil && !l.over {
		l.ready, l.since = true, time.Now()
		sl.owner, sl.cause = ownerSession, nil
		p.stats.Opened++
		if sl.opened {
			p.stats.Reconnects++
		}
		sl.opened = true
		mine := sl.postLocked(Event{State: Open, Session: l.s})
		p.mu.Unlock()
		if mine {
			sl.notify()
		}
		return
	}
	switch {
	case l.over && (err == nil || errors.Is(err, context.Canceled)): // the end of the session has cancelled the attempt
		err = l.reason
	case err == nil:
		err = sl.closing
	}
	p.stats.Failures++
	p.mu.Unlock()
	l.quit(err)
	sl.lost(l, err)
}

// lost moves the slot on after its session has ended or an attempt has failed, for the reason err.
func (sl *slot) lost(l *link, err error) {
	p := sl.p
	p.mu.Lock()
	sl.owner, sl.cause = ownerNotifier, err
	ev := Event{State: BackingOff, Err: err}
	if l.ready {
		ev.Session = l.s
	}
	if l.ready && time.Since(l.since) >= p.o.StableAfter {
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
			sl.lostUnlock(ev)
		})
		return
	}
	sl.lostUnlock(ev)
}

// lostUnlock queues the change of a slot that has lost its session, and calls State. The mutex is held, and lostUnlock releases it.
func (sl *slot) lostUnlock(ev Event) {
	if sl.closing != nil {
		ev = Event{State: Closed, Err: sl.closing, Session: ev.Session}
	}
	mine := sl.postLocked(ev)
	address, failed := sl.address, sl.failed
	sl.p.mu.Unlock()
	if ev.State == Failed {
		sl.p.o.Logger.Warn("reconnect: slot gave up", "slot", sl.id, "address", address, "attempts", failed, "error", ev.Err)
	}
	if mine {
		sl.notify()
	}
}

// moveLocked selects the next address if this one has failed MoveAfter times in a row.
func (sl *slot) moveLocked() {
	if m := sl.p.o.MoveAfter; m == 0 || sl.failing < m {
		return
	}
	sl.address, sl.failing = next(sl.p.addresses, sl.address), 0
}

// next returns the address after a in a ring, or the first address if a is not in the ring.
func next(ring []string, a string) string {
	for i := range ring {
		if ring[i] == a {
			return ring[(i+1)%len(ring)]
		}
	}
	return ring[0]
}

// finish waits until the last session of a final slot has released everything, and removes the slot from the pool's count.
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
	p.releaseLocked()
	p.mu.Unlock()
}

// closeLocked ends the slot for a reason; it ends an open session at once, or drains it. It returns a function that the caller has to call
// without the mutex, or nil.
func (sl *slot) closeLocked(cause error, gently bool) func() {
	first := sl.closing == nil
	if first {
		sl.closing = cause
	}
	switch sl.owner {
	case ownerTimer:
		if sl.timer.Stop() {
			sl.timer, sl.owner = nil, ownerNotifier
			if sl.postLocked(sl.closedLocked()) {
				go sl.notify()
			}
		}
	case ownerDialer:
		sl.link.cancel(cause)
	case ownerSession:
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

// panicked counts and logs a panic in a function of the options, and returns it as an error. If the function ended its goroutine, v is nil.
func (p *Pool) panicked(name string, v any) error {
	err := &session.PanicError{Value: v, Stack: debug.Stack()}
	p.mu.Lock()
	p.stats.Panics++
	p.mu.Unlock()
	p.o.Logger.Error("reconnect: function panicked", "function", name, "panic", fmt.Sprint(v), "stack", string(err.Stack))
	return err
}
