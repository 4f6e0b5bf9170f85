package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/door"
	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/handle"
	"github.com/sluice-push/sluice/internal/prefetch"
	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/slowness"
	"github.com/sluice-push/sluice/internal/thread"
	"github.com/sluice-push/sluice/timingwheel"
)

// The engine with event loops. A loop is an interest list (epoll), a timing wheel, and the sessions that have a seat in it; its driver,
// a goroutine, waits for them and gives each its turn inline: read once, decode, call the handler, write what was sent meanwhile.
// No read is made only to hear that there is nothing more.
//
//	gather ──► work: ready, posted, due ──► for each: stamp odd, serve, stamp even ──► gather ...
//	                                              │
//	                              a watch sees one odd stamp twice, a millisecond apart, or the
//	                              handler is about to wait: another driver takes the rest of the
//	                              work and the loop over, and this goroutine ends after its turn
//
// So a handler may block: it holds the loop up until a watchdog calls the watch, because the driver does not get on, and for two looks of that:
// one and a half to two and a half milliseconds. A session that was taken over, and not in one of many turns, gets its next turns on a goroutine
// (away), where it stays until a number of them in a row were quick; where several were taken over lately all sessions do. See stay_linux.go.
//
// Interest in bytes is edge triggered, which saves the kernel a second look at each connection that was ready; the rest is level
// triggered. One read a turn is enough because the kernel looks at a connection when it reports it, and reports it again when
// something has come since: after a read that did not fill its buffer nothing is left, unless the report said that the peer has
// ended. After one that did, or such a report, the interest is put in anew (more), and the kernel looks again.
//
// Who has the turn is decided under the session's mutex: the driver, unless away is set. The stamp is the driver's claim on the
// loop: it is given up by a compare-and-swap that fails when the loop was taken over meanwhile.

const (
	wheelTick  = 20 * time.Millisecond
	wheelSlots = 1024
	eventsMax  = 256
	aliveEvery = 16 // sessions
)

// job is something to be done by the driver.
type job struct {
	s    *Session
	what uint32 // readiness of epoll, and:
}

// Reasons for a turn that are not the kernel's. They are bits that epoll does not use.
const (
	jobPosted uint32 = 1 << 24 // something has changed for which the session's end waits
	jobLate   uint32 = 1 << 25 // a time has come
)

// loop runs sessions. Lock order: the session's mutex, then the loop's.
type loop struct {
	srv  *Server
	list *epoll.List
	now  atomic.Int64 // the server's clock when the driver last looked

	driver  atomic.Pointer[driver]
	blocked atomic.Int32   // drivers that have lost the loop and not ended
	visited atomic.Bool    // a goroutine has brought a session since the driver last napped
	ended   sync.WaitGroup // drivers, and the watchdog

	dog *pulse.Watchdog // of the driver

	sight slowness.Sight // of the stamp; owned by the watch

	mu sync.Mutex
	// Guarded by mu.
	wheel    *timingwheel.Wheel[*Session]
	seated   handle.Table[*Session] // by the handles by which the kernel knows them
	doors    map[uint64]*door.Door  // by their handles, under which no session is seated
	lost     map[*Session]*driver   // the drivers that have lost the loop to the handler of a session
	posted   []*Session
	asleep   bool
	wakeAt   int64 // when the driver will wake by itself; valid while asleep, 0 is never
	stopping bool
}

func newLoop(srv *Server) (*loop, error) {
	list, err := epoll.New()
	if err != nil {
		return nil, err
	}
	dog, err := pulse.NewWatchdog(watchTick)
	if err != nil {
		_ = list.Close()
		return nil, err
	}
	_ = list.Prepare() // while it is empty; for want of a descriptor it is tried again
	l := &loop{
		srv: srv, list: list, dog: dog, wheel: timingwheel.NewWheel[*Session](wheelTick, wheelSlots),
		doors: make(map[uint64]*door.Door), lost: make(map[*Session]*driver),
	}
	l.now.Store(srv.clock())
	l.ended.Go(func() { dog.Run(l.rests, srv.watch.Ensure) })
	go l.succeed(new(driver)).run()
	return l, nil
}

// sit gives s the handle by which the kernel's reports find it.
func (l *loop) sit(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.seat.handle = l.seated.Add(s)
}

// rise takes the handle back, and cancels the timer.
func (l *loop) rise(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wheel.Cancel(&s.seat.timer)
	l.seated.Remove(s.seat.handle)
}

// post has the driver give s a turn.
func (l *loop) post(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.seat.posted {
		return
	}
	s.seat.posted = true
	l.posted = append(l.posted, s)
	if l.asleep {
		l.wakeLocked()
	}
}

// arm sees to it that s is looked at when due has come. That may happen earlier.
func (l *loop) arm(s *Session, due int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := &s.seat.timer; t.Scheduled() && t.At() <= due {
		return
	}
	l.wheel.Schedule(&s.seat.timer, due)
	if l.wakeAt == 0 || due < l.wakeAt {
		l.wakeLocked()
	}
}

func (l *loop) wakeLocked() {
	if l.asleep {
		l.asleep = false
		l.list.Wake()
	}
}

// stop ends the loop; all its sessions have ended.
func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	l.wakeLocked()
}

func (l *loop) newDriver() *driver {
	d := &driver{loop: l, events: epoll.NewBuffer(eventsMax), work: make([]job, 0, eventsMax)}
	d.out, d.in = l.srv.pools.Batch(), l.srv.pools.Shared.Get()
	d.in.Own()
	return d
}

// succeed gives the loop to a new driver, with the work that d has left. It is to be run.
func (l *loop) succeed(d *driver) (next *driver) {
	next = l.newDriver()
	next.work, next.thread.Offers = append(next.work, d.work[d.next:]...), d.thread.Offers
	next.stamp.Store((d.stamp.Load()&^takenOver + 1) &^ 1)
	l.driver.Store(next)
	l.ended.Add(1)
	return next
}

// driver drives a loop, until another takes it over.
type driver struct {
	loop *loop

	stamp atomic.Uint64           // odd while cur has its turn; it grows, from driver to driver too
	cur   atomic.Pointer[Session] // the session that is served; valid while the stamp is odd

	thread thread.Thread

	// Owned by the driver; by who took over when the stamp says so.
	events *epoll.Buffer
	doors  []*door.Door // at which somebody waits
	work   []job
	next   int            // the first job that is not begun
	in     *buffer.Buffer // for what a session reads in its turn
	out    *buffer.Batch  // for what it sends
}

// takenOver is added to the stamp of a driver that has lost its loop.
const takenOver = 1 << 63

func (d *driver) run() {
	l := d.loop
	defer l.ended.Done()
	defer d.abandon()
	d.thread.Share(false)
	defer d.thread.Share(true)
	l.dog.Alive(l.srv.clock())
	for {
		if !d.finishWork() {
			return
		}
		if !d.gather() {
			_ = errors.Join(l.list.Close(), l.dog.Close())
			return
		}
		d.admit()
	}
}

// abandon is the end of a driver. When a handler has ended the goroutine, the loop still has to be driven.
func (d *driver) abandon() {
	stamp := d.stamp.Load()
	if stamp%2 == 0 {
		return
	}
	if stamp&takenOver == 0 && d.stamp.CompareAndSwap(stamp, stamp|takenOver) {
		go d.loop.succeed(d).run()
	} else {
		d.loop.blocked.Add(-1)
		d.loop.mu.Lock()
		delete(d.loop.lost, d.cur.Load())
		d.loop.mu.Unlock()
	}
	d.cur.Load().comeBack()
}

// finishWork does the work that was gathered, and reports whether the loop is still this driver's.
func (d *driver) finishWork() bool {
	for d.next < len(d.work) {
		j := &d.work[d.next]
		if d.next++; d.next%aliveEvery == 0 {
			d.loop.dog.Alive(d.loop.srv.clock())
		}
		s := j.s
		if d.next < len(d.work) {
			prefetch.Wide(d.work[d.next].s)
		}
		d.cur.Store(s)
		stamp := d.stamp.Add(1)
		if t, isInline := s.serve(j.what); isInline {
			prefetch.Value(s.codec) // it is needed when bytes have been read
			d.giveLocked(s, t)
			s.turnedLocked()
		}
		if !d.stamp.CompareAndSwap(stamp, stamp+1) {
			d.in.Return()
			if d.out != nil {
				d.loop.srv.pools.PutBatch(d.out)
			}
			return false // abandon is the rest
		}
	}
	d.cur.Store(nil)
	clear(d.work)
	d.work, d.next = d.work[:0], 0
	return true
}

// gather waits for work. It returns false when the loop has ended.
func (d *driver) gather() bool {
	l := d.loop
	if err := l.list.Poll(d.events); err == nil && d.events.Len() == 0 && d.nap() {
		return false
	}
	now := l.srv.clock()
	if d.thread.Due(now) {
		now = d.thread.Yield(now, l.srv.clock)
	}
	l.now.Store(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = false
	l.dog.Alive(now)
	for i := range d.events.Len() {
		ev := d.events.At(i)
		if ev.Woken() {
			l.list.Rested()
			continue
		}
		switch s, ok := l.seated.At(ev.Data()); {
		case s != nil:
			d.work = append(d.work, job{s, ev.Ready})
		case ok && l.doors[ev.Data()] != nil:
			d.doors = append(d.doors, l.doors[ev.Data()])
		}
	}
	for i, s := range l.posted {
		s.seat.posted = false
		d.work = append(d.work, job{s, jobPosted})
		l.posted[i] = nil
	}
	l.posted = l.posted[:0]
	l.wheel.Advance(now, func(n *timingwheel.Node[*Session]) { d.work = append(d.work, job{n.Value, jobLate}) })
	return !l.stopping
}

// nap waits in the kernel until there is something to do. It reports whether the loop has ended.
func (d *driver) nap() (over bool) {
	l := d.loop
	if now := l.srv.clock(); d.thread.Soon(now) {
		d.thread.Yield(now, l.srv.clock)
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
		wait = max(0, time.Duration(at-l.srv.clock()))
	}
	l.asleep = true
	l.mu.Unlock()
	// Where handlers sleep the runtime's timers are waited for, and it looks at them when its poller returns.
	parks := l.visited.Swap(false) || l.blocked.Load() > 0 || l.srv.loops.slow.Slow(l.srv.clock())
	if d.thread.Share(parks); !parks || l.list.Park(d.events, wait) != nil { // for want of a descriptor
		_ = l.list.Wait(d.events, wait) // an error, for which there is no reason, is an empty wait
	} else {
		d.thread.Rested(l.srv.clock())
	}
	d.thread.Share(l.srv.loops.slow.Slow(l.srv.clock())) // that may have been long ago
	return false
}

// rests reports whether the driver has nothing to do, or will have nothing any more.
func (l *loop) rests() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asleep || l.stopping
}
