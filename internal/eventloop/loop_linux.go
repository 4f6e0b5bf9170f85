package eventloop

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/transport"
)

const (
	timerTick  = 20 * time.Millisecond
	timerSlots = 1024
	maxEvents  = 256
	checkEvery = 16 // members between two calls of Watchdog.Reset
)

// Events is what Dispatch has to handle: what a descriptor is ready for, and reasons of the loop's own, which are bits that epoll does not use.
type Events = uint32

// The loop's own reasons.
const (
	Posted     Events = 1 << 24 // Post was called
	TimerFired Events = 1 << 25 // the time given to SetTimer has come, or an earlier one
)

// Member is a connection that a loop runs: a pointer. It has a mutex, which guards it and its Registration.
type Member[M any] interface {
	comparable
	// Registration returns the loop's part of the member.
	Registration() *Registration[M]
	// Dispatch handles events, on the loop's thread t. The lock is not held.
	Dispatch(t *Thread[M], events Events)
	// HandedOff is called after a hand-off that the watchdog began, while Dispatch goes on. The lock is not held.
	HandedOff()
	// DispatchEnded is called at the end of a dispatch that has lost the loop, whether Dispatch has returned or ended its goroutine. The lock is
	// not held.
	DispatchEnded()
	// UpdateInterest calls SetInterest if the interest has changed. The lock is held.
	UpdateInterest()
	// TryLock and Unlock are those of the mutex.
	TryLock() bool
	Unlock()
}

// Registration is the part of a member that belongs to its loop. It is guarded by the member's mutex, unless something else is said.
type Registration[M any] struct {
	Offload   OffloadState // whether the member's handlers have blocked
	Waiter    *Waiter      // of an offloaded member that waits for its peer on a goroutine; for the member's owner
	interest  Events       // what the descriptor is watched for; 0 is nothing, because a one-shot interest has fired
	added     bool         // the descriptor is watched
	Offloaded bool         // a goroutine other than the loop's thread dispatches the member
	OnLoop    bool         // the loop's thread does
	Rearm     bool         // owned by the dispatching goroutine: there may be more to read, so the kernel is to look again
	posted    bool         // guarded by the loop's mutex
	id        uint64
	timer     timingwheel.Node[M] // guarded by the loop's mutex; its value is the member
}

// Config is what a loop needs.
type Config struct {
	Clock   func() int64 // monotonic nanoseconds
	Pools   *buffer.Pools
	OnStall func() // is called when CheckStall should be called again and again until it returns false; must not block
}

// Loop runs members. Lock order: a member's mutex, then the loop's.
type Loop[M Member[M]] struct {
	cfg  Config
	poll *Poller
	now  atomic.Int64 // when the thread looked last

	thread  atomic.Pointer[Thread[M]]
	blocked atomic.Int32   // threads that have lost the loop and not ended
	visited atomic.Bool    // a goroutine has brought a member since the thread idled last
	running sync.WaitGroup // threads, and the watchdog

	watchdog *Watchdog
	stall    StallDetector // of the thread; owned by the goroutine in CheckStall
	offload  OffloadGroup

	mu sync.Mutex
	// Guarded by mu.
	wheel     *timingwheel.Wheel[M]
	members   Table[M]                        // by the ids that the kernel knows
	acceptors map[uint64]*Acceptor            // by their ids, which are of no member
	lost      map[*Registration[M]]*Thread[M] // threads that have lost the loop to the Dispatch of a member
	posted    []M
	idle      bool
	wakeAt    int64 // when the thread will wake by itself; valid while idle, 0 is never
	stopping  bool
}

// New starts a loop. It takes four descriptors, and fails if there are none.
func New[M Member[M]](c *Config) (*Loop[M], error) {
	p, err := NewPoller()
	if err != nil {
		return nil, err
	}
	w, err := NewWatchdog(StallTick)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	_ = p.Prepare() // while it is empty; if there is no descriptor, Park tries again
	l := &Loop[M]{
		cfg: *c, poll: p, watchdog: w, wheel: timingwheel.NewWheel[M](timerTick, timerSlots),
		acceptors: make(map[uint64]*Acceptor), lost: make(map[*Registration[M]]*Thread[M]),
	}
	l.now.Store(l.cfg.Clock())
	l.running.Go(func() { w.Run(l.IsIdle, l.cfg.OnStall) })
	l.successor(new(Thread[M]))
	return l, nil
}

// Now returns the time at which the thread looked for events last. Any goroutine may call it.
func (l *Loop[M]) Now() int64 { return l.now.Load() }

// Offload returns what the loop knows of members whose handlers block.
func (l *Loop[M]) Offload() *OffloadGroup { return &l.offload }

// Register gives a member its id. No other goroutine knows the member yet.
func (l *Loop[M]) Register(m M) {
	r := m.Registration()
	r.timer.Value = m
	l.mu.Lock()
	defer l.mu.Unlock()
	r.id = l.members.Add(m)
}

// Visit says that a goroutine that was accepting has brought a member, and goes on.
func (l *Loop[M]) Visit() { l.visited.Store(true) }

// Unregister removes a member, and cancels its timer. Its descriptor is closed, or has been removed from the poller.
func (l *Loop[M]) Unregister(r *Registration[M]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wheel.Cancel(&r.timer)
	l.members.Remove(r.id)
}

// Post has the member dispatched with Posted. Any goroutine may call it, with and without the member's lock.
func (l *Loop[M]) Post(r *Registration[M]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.posted {
		return
	}
	r.posted = true
	l.posted = append(l.posted, r.timer.Value)
	if l.idle {
		l.wakeLocked()
	}
}

// SetTimer has the member dispatched with TimerFired at the time due. It only ever makes the timer fire earlier.
func (l *Loop[M]) SetTimer(r *Registration[M], due int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := &r.timer; t.Scheduled() && t.At() <= due {
		return
	}
	l.wheel.Schedule(&r.timer, due)
	if l.wakeAt == 0 || due < l.wakeAt {
		l.wakeLocked()
	}
}

func (l *Loop[M]) wakeLocked() {
	if l.idle {
		l.idle = false
		l.poll.Wake()
	}
}

// Stop ends the loop, whose members have all been unregistered.
func (l *Loop[M]) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	l.wakeLocked()
}

// Wait waits until the loop has ended, which it does after Stop.
func (l *Loop[M]) Wait() { l.running.Wait() }

// IsIdle reports whether the thread has nothing to do, or never will again.
func (l *Loop[M]) IsIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle || l.stopping
}

// Add begins to watch a descriptor for a member. The member's lock is held.
func (l *Loop[M]) Add(r *Registration[M], fd int32, interest Events) error {
	if err := l.poll.Add(int(fd), interest, r.id); err != nil {
		return err
	}
	r.interest, r.added = interest, true
	return nil
}

// IsAdded reports whether the descriptor is being watched. The member's lock is held.
func (r *Registration[M]) IsAdded() bool { return r.added }

// Interest returns what the descriptor is watched for. The member's lock is held.
func (r *Registration[M]) Interest() Events { return r.interest }

// SetInterest changes what the descriptor is watched for. The member's lock is held.
func (l *Loop[M]) SetInterest(r *Registration[M], fd int32, interest Events) error {
	r.interest = interest
	return l.poll.Change(int(fd), interest, r.id)
}

// unknown is an interest that no descriptor has.
const unknown Events = 1 << 26

// ForgetInterest makes the next SetInterest count as a change, so that the kernel looks at the descriptor again. The member's lock is held.
func (r *Registration[M]) ForgetInterest() { r.interest = unknown }

// Reported says that the descriptor has been reported: a one-shot interest is used up. The member's lock is held.
func (r *Registration[M]) Reported() {
	if r.interest&OneShot != 0 {
		r.interest = 0
	}
}

// Remove stops watching the descriptor, which is about to be closed. An edge-triggered one has nothing more to report, even if another process keeps
// a duplicate of it. The member's lock is held.
func (l *Loop[M]) Remove(r *Registration[M], fd int32) {
	if r.interest&Edge == 0 {
		_ = l.poll.Remove(int(fd))
	}
}

// AcceptOn has the loop's thread accept the connections of a listener, and calls admit with each. It returns when the thread has stopped, because
// accepting failed or the listener was closed. Errors are those of [transport.Listener.Acceptor].
func (l *Loop[M]) AcceptOn(ln *transport.Listener, admit func(transport.Descriptor, net.Addr)) error {
	l.mu.Lock()
	var none M
	id := l.members.Add(none)
	l.mu.Unlock()
	a, err := NewAcceptor(ln, l.poll, id, admit)
	if err == nil {
		l.mu.Lock()
		l.acceptors[id] = a
		l.mu.Unlock()
		a.Wait()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.acceptors, id)
	l.members.Remove(id)
	return err
}

// HasThread reports whether the loop's goroutine has an operating system thread to itself.
func (l *Loop[M]) HasThread() bool { return l.thread.Load().os.IsLocked() }

// Acceptors returns on how many listeners the loop accepts.
func (l *Loop[M]) Acceptors() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acceptors)
}
