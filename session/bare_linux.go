package session

import (
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/lookout"
	"github.com/sluice-push/sluice/internal/slowness"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/timingwheel"
	"github.com/sluice-push/sluice/transport"
)

// bare is the carrier of the engine with event loops: a descriptor without a net.Conn around it. It is closed by who concludes
// the session, when nobody is in the middle of a write; that is what keeps its number from being used for another's.
type bare Session

// seat is what a session needs to be run by a loop.
type seat struct {
	loop *loop // set when made

	// Guarded by the session's mutex.
	mask    uint32       // what is watched for; 0 is nothing, because a one-shot interest has fired
	watched bool         // it is in the interest list
	away    bool         // somebody else than the driver has the turn
	inline  bool         // the driver has the turn
	owed    bool         // Tick is to be called in the next turn
	deaf    bool         // nothing will be read any more
	zero    bool         // it has sent without copying
	balked  bool         // the kernel said that there is room, and took nothing: see balkLocked
	more    bool         // owned by who has the turn: there may be more to read than was read
	free    bool         // a turn that is away may take its time: it is a goroutine's anyway, or somebody, perhaps who has it, waits for the peer
	dry     bool         // owned by who has the turn: a read has found nothing; set to false before by who wants to know
	posted  bool         // guarded by the loop's mutex
	pace    slowness.One // whether turns are given to goroutines
	stalled int64        // since when the peer has taken nothing, while the pen is penDraining
	tls     *bareTLS     // the carrier, if the session speaks TLS; set when made
	copied  net.Conn
	out     *lookout.Lookout // not nil while it stays; written under the mutex by who has the turn, who may read it without

	// Set when made.
	handle uint64         // in the loop
	peer   netip.AddrPort // not valid for a Unix socket
	ends   *socket.Ends   // shared by all sessions with the same one and a valid peer

	timer timingwheel.Node[*Session] // guarded by the loop's mutex
}

func (b *bare) session() *Session { return (*Session)(b) }

func (b *bare) direct() bool { return true }

func (b *bare) offer(w *buffer.Batch) (int, error) {
	return w.WriteTo(uintptr(b.fd))
}

// isBare reports whether frames go straight to a descriptor.
func (s *Session) isBare() bool {
	_, ok := s.c.(*bare)
	return ok
}

// offerOne is offer for one frame.
func (s *Session) offerOne(p []byte) (int, error) {
	return buffer.Result(buffer.Send(uintptr(s.fd), p))
}

func (b *bare) offerLarge(l *buffer.Large) (int, error) {
	return l.WriteTo(uintptr(b.fd), &b.srv.pools.Read)
}

func (b *bare) holding() bool { return false }

func (b *bare) closeWrite() bool { return syscall.Shutdown(int(b.fd), syscall.SHUT_WR) == nil }

// start puts the descriptor into the loop's interest list. It has room, so the first turn comes at once where one is asked for.
func (b *bare) start() {
	s := b.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() == phaseClosed { // the server was closed; it has posted
		return
	}
	// Nothing to do before bytes come, unless Shutdown was called since it was admitted.
	if s.h.Open == nil && s.pull == nil && len(s.in.Unread()) == 0 && s.srv.observer.Opened == nil && !s.goodbye {
		s.opened, s.ready = true, true
		s.opening()
	}
	s.startClocksLocked()
	mask := s.maskLocked()
	if err := s.seat.loop.list.Add(int(s.fd), mask, s.seat.handle); err != nil {
		s.failLocked(ByError, err)
		return
	}
	s.seat.mask, s.seat.watched = mask, true
}

func (b *bare) reject() {
	b.seat.loop.rise(b.session())
	_ = syscall.Close(int(b.fd))
}

func (b *bare) roomLocked() {
	s := b.session()
	s.seat.stalled = s.srv.clock()
	s.watchForLocked()
	s.armLocked()
}

func (b *bare) armLocked() {
	s := b.session()
	due := s.dueLocked()
	if s.pen == penDraining && s.o.WriteTimeout > 0 {
		due = sooner(due, s.seat.stalled+int64(s.o.WriteTimeout))
	}
	if s.seat.balked {
		due = sooner(due, s.srv.clock()+int64(balkTime))
	}
	due = sooner(due, s.reportsDueLocked())
	if due > 0 {
		s.seat.loop.arm(s, due)
	}
}

func (b *bare) abortLocked() {
	if b.fd >= 0 {
		b.session().disconnectLocked()
		if !b.reset {
			_ = syscall.Shutdown(int(b.fd), syscall.SHUT_RDWR)
		}
	}
}

func (b *bare) changedLocked() {
	if s := b.session(); s.fd >= 0 && s.phase.Load() == phaseClosed {
		s.seat.loop.post(s)
	}
}

// yieldLocked gives the loop up at once if this session's handler holds it: nobody needs to watch for it. A goroutine that has lost the loop,
// now or before, does not keep its thread while it waits.
func (b *bare) yieldLocked() (lost bool) {
	s := b.session()
	s.seat.free = s.seat.away
	if d := s.seat.loop.driver.Load(); s.seat.inline {
		stamp := d.stamp.Load()
		if stamp%2 == 0 || d.cur.Load() != s {
			return false
		}
		if next := s.seat.loop.takeOverLocked(s, d, stamp); next != nil {
			go next.run()
			s.drawLocked()
			lost = true
		}
	}
	if d := s.seat.loop.lostBy(s); d != nil {
		d.thread.Release()
	}
	return lost
}

// net makes a connection of a duplicate of the descriptor, when somebody asks for it.
func (b *bare) net() net.Conn {
	s := b.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seat.copied == nil && s.fd >= 0 {
		s.seat.copied, _ = transport.Attach(transport.Descriptor{FD: int(s.fd), Unix: !s.seat.peer.IsValid()})
	}
	return s.seat.copied
}

func (b *bare) remote() net.Addr {
	if b.seat.peer.IsValid() {
		return net.TCPAddrFromAddrPort(b.seat.peer)
	}
	return b.seat.ends.Remote
}

func (b *bare) local() net.Addr { return b.seat.ends.Local }

// maskLocked returns what the session is to be watched for.
func (s *Session) maskLocked() uint32 {
	var mask uint32
	if s.pen == penDraining && !s.seat.balked {
		mask = epoll.Out
	}
	switch {
	case s.seat.away, s.seat.deaf, s.unwritten.Load() > 0:
		mask |= epoll.OneShot
	case !s.opened && (s.seat.tls != nil || s.slowLocked()):
		mask |= epoll.Out | epoll.OneShot
	case !s.opened:
		mask = withRoom
	case s.slowLocked():
		mask |= epoll.In | epoll.OneShot
	case s.pen == penDraining || s.seat.tls != nil:
		mask |= epoll.In
	default:
		mask |= onArrival
	}
	return mask
}

// The masks of a session that nobody waits for. With room a report comes at once as well, and then none for that: the kernel tells of room
// where a write has failed for want of it, and then the mask is another. So there is no need to change it.
const (
	onArrival = epoll.In | epoll.End | epoll.Edge
	withRoom  = onArrival | epoll.Out

	stale uint32 = 1 << 24 // is in no mask
)

// watchForLocked tells the kernel what the session is to be watched for, if that has changed.
func (s *Session) watchForLocked() {
	if s.fd < 0 || !s.seat.watched {
		return
	}
	mask, old := s.maskLocked(), s.seat.mask
	if mask == old || mask == onArrival && old == withRoom || mask == epoll.OneShot && old == 0 && !s.unreportedLocked() {
		return
	}
	s.seat.mask = mask
	if err := s.seat.loop.list.Change(int(s.fd), mask, s.seat.handle); err != nil {
		s.failLocked(ByError, err)
	}
}

// slowLocked reports whether turns are given to goroutines.
func (s *Session) slowLocked() bool {
	return s.seat.pace.Slow() || s.pull != nil || s.errand != nil || s.seat.loop.srv.loops.slow.Slow(s.seat.loop.now.Load())
}

// serve does what the driver has found for a session, but for a turn that it gives inline: then it returns that, with mu held.
func (s *Session) serve(what uint32) (t turn, isInline bool) {
	s.mu.Lock()
	if s.fd < 0 {
		s.mu.Unlock()
		return t, false
	}
	if s.seat.mask&epoll.OneShot != 0 && what&(jobPosted|jobLate) == 0 {
		s.seat.mask = 0
	}
	if s.seat.zero && what&epoll.Err != 0 {
		what = s.reportsLocked(what)
	}
	if what&jobLate != 0 && s.beLateLocked() {
		s.seat.owed = true
	}
	if s.pen == penDraining && (what&(epoll.Out|epoll.Err|epoll.Hup) != 0 || s.phase.Load() == phaseClosed) {
		if stuck := s.flushLocked(); stuck && what&epoll.Out != 0 {
			s.balkLocked()
		}
	}
	if s.seat.away && s.phase.Load() == phaseClosed && s.retractLocked() {
		s.seat.away = false
	}
	if s.seat.away {
		if s.seat.out != nil && (s.seat.owed || s.phase.Load() == phaseClosed) {
			s.seat.out.Recall() // it comes back for that
		}
		s.watchForLocked()
		s.mu.Unlock()
		return t, false
	}
	if what&(epoll.End|epoll.Err|epoll.Hup) != 0 {
		s.seat.more = true
	}
	t = turn{tick: s.seat.owed, open: !s.opened, read: what&(epoll.In|epoll.Err|epoll.Hup) != 0 && !s.seat.deaf}
	s.seat.owed = false
	if s.unwritten.Load() > 0 {
		t.read = false
	} else {
		t.rest, s.paused = s.paused, false
	}
	if t == (turn{}) || s.phase.Load() == phaseClosed {
		s.turnedLocked()
		return t, false
	}
	if s.slowLocked() {
		s.seat.away = true
		s.watchForLocked()
		s.giveAwayLocked(t)
		return t, false
	}
	return t, true
}

// giveAwayLocked has the executor, or else the crew, take a turn of s, which is away. It releases mu.
func (s *Session) giveAwayLocked(t turn) {
	outside := s.outsideLocked()
	if outside {
		s.errand.turn = t
		s.errand.owe(s.srv.clock())
	}
	s.mu.Unlock()
	s.srv.shard(s).moved.Add(1)
	if outside {
		s.srv.hire(s)
	} else {
		s.srv.loops.crew.Give(away{s, t})
	}
}

func (b *bare) execute() {
	b.errand.inside = true
	b.session().turnAway(b.errand.turn)
}

// giveLocked gives s a turn, with the driver's buffers. It lets go of the mutex meanwhile.
func (d *driver) giveLocked(s *Session, t turn) {
	if d.out == nil {
		d.out = s.srv.pools.Batch()
	}
	if d.in == nil {
		d.in = s.srv.pools.Shared.Get()
		d.in.Own()
	}
	s.seat.inline = true
	s.seat.pace.Begin()
	s.corkLocked(d.out)
	lent := s.gathered == d.out
	s.mu.Unlock()
	s.in.Borrow(d.in)
	if t != (turn{read: true}) || s.seat.tls != nil { // or else the usual turn, without a function in between: see pourAloneLocked
		s.take(t)
	} else if !s.readOnce() {
		s.deafen()
	}
	s.rest()
	if !d.in.Free { // a large part of a message lies in it
		d.in.Disown()
		d.in = nil
	}
	s.mu.Lock()
	s.handledLocked()
	s.seat.inline = false
	s.pourAloneLocked()
	out := s.uncorkLocked()
	if lent && out != d.out {
		d.out = nil
	}
	if out != nil && out != d.out {
		s.srv.pools.PutBatch(out)
	}
}

// take is the turn of a session.
func (s *Session) take(t turn) {
	goOn := true
	switch {
	case t.rest:
		if t.open {
			s.awaitFirst()
		}
		goOn = s.receive(0)
		if goOn && s.seat.tls != nil {
			goOn = s.seat.tls.handle(s.seat.tls.left)
		}
	case t.open:
		goOn = s.open() && (len(s.in.Unread()) == 0 || s.receive(0))
		t.read = (t.read || s.seat.tls != nil) && !s.leaves() // TLS may have read more than the handshake
	}
	if goOn && t.tick {
		s.tick()
	}
	switch {
	case !goOn || !t.read || s.paused:
	case s.seat.tls != nil:
		goOn = s.seat.tls.readOnce()
	default:
		goOn = s.readOnce()
	}
	if !goOn {
		s.deafen()
	}
}

// deafen ends reading.
func (s *Session) deafen() {
	s.mu.Lock()
	s.seat.deaf = true
	if s.quitLocked() {
		s.failLocked(ByLocal, ErrClosed)
	}
	s.mu.Unlock()
}

// readOnce reads what is there, up to a buffer full, and handles it. It reports whether to go on reading.
func (s *Session) readOnce() (goOn bool) {
	space := s.in.Space()
	n, errno := buffer.Receive(uintptr(s.fd), space)
	switch {
	case errno == syscall.EAGAIN:
		s.seat.dry, goOn = true, true
	case errno != 0:
		s.ended(os.NewSyscallError("read", errno))
	case n == 0:
		s.ended(io.EOF)
	default:
		if n == len(space) {
			s.seat.more = true
		}
		s.in.Arrived(n)
		if s.o.IdleTimeout > 0 {
			s.lastRead.Store(s.srv.clock()) // the loop's may stand still while the turn is away
		}
		goOn = s.receive(n)
	}
	return goOn
}

// turnedLocked is the end of a turn: the session is watched again, or over. It releases mu.
func (s *Session) turnedLocked() {
	if s.phase.Load() != phaseClosed {
		if s.seat.more {
			s.seat.more, s.seat.mask = false, stale
		}
		s.watchForLocked()
		if s.paused && s.unwritten.Load() == 0 {
			s.seat.loop.post(s)
		}
		s.mu.Unlock()
		return
	}
	if s.pen == penDraining {
		s.putDownLocked()
	}
	if s.fd < 0 || !s.quietLocked() { // who is still at work posts
		s.mu.Unlock()
		return
	}
	fd := int(s.fd)
	s.fd = -1
	if s.seat.mask&epoll.Edge == 0 { // or else the kernel has nothing more to report, even if somebody keeps a duplicate
		_ = s.seat.loop.list.Remove(fd)
	}
	_ = syscall.Close(fd)
	if s.seat.copied != nil {
		_ = s.seat.copied.Close()
	}
	if s.seat.tls != nil {
		s.lost += s.seat.tls.undelivered()
	}
	s.forgetZeroCopy()
	s.seat.loop.rise(s)
	s.concludeLocked()
}

// beLateLocked is called when a time has come. It reports whether Tick is to be called.
func (s *Session) beLateLocked() (tick bool) {
	s.seat.balked = false
	limit := int64(s.o.WriteTimeout)
	if s.pen == penDraining && limit > 0 && s.srv.clock()-s.seat.stalled >= limit {
		s.failLocked(ByTimeout, s.stalled())
		return false
	}
	if s.reportsLateLocked() {
		s.failLocked(ByTimeout, s.stalled())
		return false
	}
	tick = s.lateLocked()
	s.armLocked()
	return tick
}
