package datagram

import (
	"net"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/timingwheel"
)

// InboxPackets is how many datagrams wait for one member at most. The inbox is like the receive buffer of the kernel: what does not fit is lost.
const InboxPackets = 64

// Member is a session over datagrams, as its Socket runs it: one peer. A member is dispatched by at most one goroutine at a time. That is the
// Socket's reader, a goroutine of the member's own, or one of an executor. Lock order: the member's mutex, then the Socket's or the Sender's.
type Member interface {
	Peer

	// Registration returns the Socket's part of the member.
	Registration() *Registration
	Lock()
	TryLock() bool
	Unlock()

	// Dispatch handles w. The lock is not held. Dispatch may block, and may end its goroutine.
	Dispatch(w Work)
	// IsPulled reports whether Dispatch waits for a receiver of messages. The lock is held.
	IsPulled() bool
	// UsesExecutor reports whether an executor dispatches the member. The lock is held.
	UsesExecutor() bool
	// SubmitAndUnlock has the executor call Registration.Execute, and releases the lock.
	SubmitAndUnlock()
	// LeavesExecutor reports whether the rest of a dispatch by the executor is for a goroutine of the Socket. The lock is not held.
	LeavesExecutor() bool
	// RunEnded is called when a goroutine does not dispatch the member any more. The lock is held.
	RunEnded()
	// TakeDrain reports whether Drain is to be called now, once. It is called when everything has been dispatched. The lock is held.
	TakeDrain() bool
	// Drain asks the member to say goodbye. The lock is not held.
	Drain()

	// Received is called when a datagram has arrived, at a time of Config.Now. The lock is held.
	Received(now int64)
	// TimerFired is called when the time has come that was given to SetTimer, or earlier. It sets the timer again, and reports whether a tick is
	// due. The lock is held.
	TimerFired() (tick bool)
	// InboxBytes returns how many bytes wait in the inbox at most, if it holds more than one datagram. The lock is held.
	InboxBytes() int

	// IsQuiet reports whether no helper goroutine works for a member that has ended. If one does, it calls Registration.Changed later. The lock
	// is held.
	IsQuiet() bool
	// ConcludeAndUnlock is the last dispatch of a member that has ended. It releases the lock, and may end its goroutine.
	ConcludeAndUnlock()
	// Fail ends the member because its socket cannot be read. The lock is not held.
	Fail(err error)

	// HandedOff is called when another goroutine reads the socket because Dispatch has blocked. The lock is not held.
	HandedOff()
	// Offloaded counts a dispatch that is not the reader's. No lock is needed, as for Lost and Truncated.
	Offloaded()
	// Lost counts a datagram that is not handled.
	Lost()
	// Truncated counts a datagram that was larger than the buffer.
	Truncated()
}

// Work is what a dispatch handles. The zero Work handles nothing, but a member that has not been dispatched before is opened.
type Work struct {
	Datagram *buffer.Buffer // contains a datagram of N bytes, or is nil
	N        int
	Tick     bool // a tick is due
}

// Registration is the part of a member that belongs to its Socket.
type Registration struct {
	socket *Socket // set by Init, as is m
	m      Member
	other  *OtherAddr // or nil

	// Guarded by the member's mutex.
	reader    *reader // dispatches the member, and has not lost the socket for it; or nil
	running   bool    // a goroutine dispatches the member, or an executor is to do so
	begun     bool    // there was a first dispatch
	tick      bool    // a tick is due in the next dispatch
	concluded bool    // ConcludeAndUnlock was called
	offload   eventloop.OffloadState
	inbox     Inbox

	posted bool                            // guarded by the Socket's mutex, as is timer
	timer  timingwheel.Node[*Registration] // its value is the registration
}

// Init makes m, which has this registration, a member of a socket. The socket knows it when Config.Admit has returned it, or by Start. other is
// that of Admit.
func (r *Registration) Init(k *Socket, m Member, other *OtherAddr) {
	r.socket, r.m, r.other = k, m, other
	r.timer.Value = r
}

// OtherAddr returns the address of the peer if it is not an IP address, and otherwise nil.
func (r *Registration) OtherAddr() net.Addr {
	if r.other == nil {
		return nil
	}
	return r.other.Addr
}

// Socket returns the socket.
func (r *Registration) Socket() *Socket { return r.socket }

// IsRunning reports whether a goroutine dispatches the member, or an executor is to do so. The lock is held.
func (r *Registration) IsRunning() bool { return r.running }

// Backlog returns how many datagrams wait in the inbox. The lock is held.
func (r *Registration) Backlog() int { return r.inbox.Count }

// SetTimer has TimerFired called at a time of Config.Now. It may be called earlier. A later time than one that is set changes nothing.
func (r *Registration) SetTimer(at int64) { r.socket.setTimer(r, at) }

// Changed is called when a member has ended, and again when something that its end waits for has ended. If cancelled is set, the executor does
// not call Execute any more. The lock is held.
func (r *Registration) Changed(cancelled bool) {
	if r.concluded {
		return
	}
	if cancelled {
		r.running = false
	}
	if !r.running {
		r.socket.post(r)
	}
}

// Unread puts the rest of the datagram that is being dispatched back. It is the first to be dispatched again.
func (r *Registration) Unread(rest []byte) {
	r.m.Lock()
	r.inbox.PutFirst(r.socket.copies.Get(rest))
	r.m.Unlock()
}

// keepLocked puts a copy of a datagram into the inbox, if it has room.
func (r *Registration) keepLocked(data []byte) {
	in := &r.inbox
	if in.Count >= InboxPackets || in.Count > 0 && in.Size+len(data) > r.m.InboxBytes() {
		r.m.Lost()
		return
	}
	in.Put(r.socket.copies.Get(data))
}

// Keep puts a copy of a datagram into the inbox before the first dispatch.
func (r *Registration) Keep(data []byte) { r.keepLocked(data) }

// runsOffReaderLocked reports whether dispatches are not the reader's. The reader of a dialed socket has no other member to read for.
func (r *Registration) runsOffReaderLocked() bool {
	k := r.socket
	return r.m.UsesExecutor() || !k.connected && (r.m.IsPulled() || r.offload.Offloaded(&k.offload, k.now.Load()))
}

// run dispatches w, and then what has come meanwhile, up to a full inbox. If more is set, there is more to dispatch, and the member is still running.
func (r *Registration) run(w Work) (more bool) {
	r.dispatch(w)
	for range InboxPackets {
		if r.m.LeavesExecutor() {
			return true
		}
		c, tick, ok := r.next()
		switch {
		case !ok:
			return false
		case c == nil:
			r.dispatch(Work{Tick: tick})
		default:
			r.dispatch(Work{Datagram: &c.Buffer, N: c.N, Tick: tick})
			r.socket.copies.Put(c)
		}
	}
	return true
}

// dispatch has the member handle w, unless it has ended.
func (r *Registration) dispatch(w Work) {
	switch {
	case !r.m.Ended():
		r.m.Dispatch(w)
	case w.Datagram != nil:
		r.m.Lost()
	}
}

// next returns what is to be dispatched next. If there is nothing, the run is over, and a member that has ended is concluded.
func (r *Registration) next() (c *Copy, tick, ok bool) {
	r.m.Lock()
	if r.m.Ended() {
		r.concludeAndUnlock()
		return nil, false, false
	}
	c, tick = r.inbox.Take(), r.tick
	r.tick = false
	if c != nil || tick {
		r.m.Unlock()
		return c, tick, true
	}
	r.runEndedLocked()
	drain := r.m.TakeDrain()
	r.m.Unlock()
	if drain {
		r.m.Drain()
	}
	return nil, false, false
}

// runEndedLocked says that no goroutine dispatches the member any more.
func (r *Registration) runEndedLocked() {
	r.running = false
	r.m.RunEnded()
}

// concludeAndUnlock ends the run of a member that has ended, and concludes it if no helper works for it any more. It releases the lock.
func (r *Registration) concludeAndUnlock() {
	r.runEndedLocked()
	if !r.m.IsQuiet() {
		r.m.Unlock()
		return
	}
	r.running, r.concluded = true, true
	for c := r.inbox.Take(); c != nil; c = r.inbox.Take() {
		r.m.Lost()
		r.socket.copies.Put(c)
	}
	defer r.socket.remove(r) // also when the goroutine ends
	r.m.ConcludeAndUnlock()
}

// offloadAndUnlock has the executor, or else a goroutine of its own, dispatch a member that is running. It releases the lock.
func (r *Registration) offloadAndUnlock(tick bool) {
	m := r.m
	if m.Ended() {
		r.running = false
		r.socket.post(r)
		m.Unlock()
		return
	}
	r.tick = r.tick || tick
	m.Offloaded()
	if m.UsesExecutor() {
		m.SubmitAndUnlock()
		return
	}
	r.socket.begin()
	m.Unlock()
	go r.runOffReader()
}

// runOffReader dispatches the member on a goroutine of its own.
func (r *Registration) runOffReader() {
	defer r.socket.end()
	done := false
	defer func() {
		if !done { // a handler has ended the goroutine
			r.abandon()
		}
	}()
	for more := true; more; {
		more = r.run(Work{})
	}
	done = true
}

// Execute dispatches the member on a goroutine of the executor. What comes after a full inbox is another task, so that others get their turn of
// the executor.
func (r *Registration) Execute() {
	done := false
	defer func() {
		if !done {
			r.abandon()
		}
	}()
	more := r.run(Work{})
	done = true
	if more {
		r.m.Lock()
		r.m.RunEnded()
		r.offloadAndUnlock(false)
	}
}

// abandon ends a run whose goroutine ends. The reader does the rest.
func (r *Registration) abandon() {
	r.m.Lock()
	defer r.m.Unlock()
	if r.concluded {
		return
	}
	r.runEndedLocked()
	r.socket.post(r)
}

// Release hands the socket on to another reader before Dispatch waits for the peer, if the reader dispatches the member. It reports whether it
// did. The lock is held.
func (r *Registration) Release() (handedOff bool) {
	from := r.reader
	if from == nil || r.socket.connected {
		return false
	}
	r.reader = nil
	r.offload.Offload(r.socket.cfg.Now())
	from.handOff()
	return true
}
