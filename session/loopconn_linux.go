package session

import (
	"net"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/writer"
	"github.com/sluice-push/sluice/transport"
)

// loopConn is the engine of a session on an event loop: a descriptor without a net.Conn around it. While nothing happens, it needs neither a
// goroutine nor a buffer.
type loopConn Session

type (
	eventLoop  = eventloop.Loop[*loopConn]
	loopThread = eventloop.Thread[*loopConn]
)

// loopState is the part of a session that only event loops use.
type loopState struct {
	on  *eventLoop // nil if the session is not on a loop; set when made
	reg eventloop.Registration[*loopConn]

	// Guarded by the session's mutex.
	tickDue      bool         // Tick is to be called in the next dispatch
	readClosed   bool         // the peer has ended its side, or reading has failed
	zeroCopied   bool         // it has sent without copying
	stuck        bool         // the kernel has reported room, but took nothing: see pauseWritesLocked
	drained      bool         // owned by the dispatching goroutine: the last read found nothing
	stalledSince int64        // when the peer last took bytes, while the state is WaitWritable
	tls          *loopTLSConn // the engine, if the session speaks TLS; set when made
	dup          *net.Conn    // a duplicate of the connection, if Conn was called

	ends *sockopt.AddrPair // addresses; sessions with the same local address and a valid peer share them; set when made
}

func (c *loopConn) session() *Session { return (*Session)(c) }

// Registration, TryLock, Unlock and UpdateInterest are the methods that the loop calls: see [eventloop.Member].
func (c *loopConn) Registration() *eventloop.Registration[*loopConn] { return &c.loop.reg }

func (c *loopConn) TryLock() bool { return c.out.TryLock() }

func (c *loopConn) Unlock() { c.out.Unlock() }

func (c *loopConn) UpdateInterest() { c.session().updateInterestLocked() }

// HandedOff writes the frames that the handler has sent before it lost its loop, and tells the observer.
func (c *loopConn) HandedOff() {
	s := c.session()
	s.out.Lock()
	s.pullCorkLocked()
	s.out.Unlock()
	s.countHandOff()
}

// pullCorkLocked pulls the cork of a dispatch that no longer runs on the loop.
func (s *Session) pullCorkLocked() {
	if s.loop.reg.Offloaded && s.out.IsCorked() {
		s.out.PullCork()
	}
}

// DispatchEnded ends a dispatch that has lost the loop, or whose handler has ended the goroutine.
func (c *loopConn) DispatchEnded() { c.session().returnToLoop() }

// start registers the descriptor. Because the connection is writable, the first dispatch comes at once if the interest asks for that.
func (c *loopConn) start() {
	s := c.session()
	s.out.Lock()
	defer s.out.Unlock()
	if s.phase.Load() == phaseClosed { // the server was closed; changedLocked has posted the session
		return
	}
	// If there is nothing to do before bytes arrive, the session is open at once. If Shutdown was called since the session was added, a first
	// dispatch has to call Drain. TLS may have read bytes already.
	if s.loop.tls == nil && s.h.Open == nil && s.pull == nil && len(s.in.Unread()) == 0 && s.srv.observer.Opened == nil && !s.drainOwed {
		s.opened, s.ready = true, true
		s.opening()
	}
	s.startClocksLocked()
	if err := s.loop.on.Add(&s.loop.reg, s.fd, s.interestLocked()); err != nil {
		s.failLocked(ByError, err)
	}
}

func (c *loopConn) reject() {
	c.loop.on.Unregister(&c.loop.reg)
	_ = syscall.Close(int(c.fd))
}

func (c *loopConn) armLocked() {
	s := c.session()
	due := s.dueLocked()
	if s.waitsWritableLocked() && s.o.WriteTimeout > 0 {
		due = sooner(due, s.loop.stalledSince+int64(s.o.WriteTimeout))
	}
	if s.loop.stuck {
		due = sooner(due, s.srv.clock()+int64(stuckFor))
	}
	due = sooner(due, s.reportsDueLocked())
	if due > 0 {
		s.loop.on.SetTimer(&s.loop.reg, due)
	}
}

func (c *loopConn) abortLocked() {
	if c.fd >= 0 {
		c.session().disconnectLocked()
		if !c.reset {
			_ = syscall.Shutdown(int(c.fd), syscall.SHUT_RDWR)
		}
	}
}

func (c *loopConn) changedLocked() {
	if s := c.session(); s.fd >= 0 && s.phase.Load() == phaseClosed {
		s.loop.on.Post(&s.loop.reg)
	}
}

// resumeLocked posts the session to its loop, which then handles the input that was left.
func (c *loopConn) resumeLocked() {
	if s := c.session(); s.fd >= 0 {
		s.loop.on.Post(&s.loop.reg)
	}
}

// willBlockLocked hands the loop off at once if this session's handler runs on it. Otherwise the watchdog would find the stall later.
func (c *loopConn) willBlockLocked() (handedOff bool) {
	s := c.session()
	if handedOff = s.loop.on.Release(c); handedOff {
		s.pullCorkLocked()
	}
	return handedOff
}

func (c *loopConn) execute() {
	c.task.running = true
	c.session().runOffLoop(c.task.work)
}

// net returns a connection with a duplicate of the descriptor, which the first call makes.
func (c *loopConn) net() net.Conn {
	s := c.session()
	s.out.Lock()
	defer s.out.Unlock()
	if s.loop.dup == nil && s.fd >= 0 {
		if conn, err := transport.Attach(transport.Descriptor{FD: int(s.fd), Unix: !s.peer.IsValid()}); err == nil {
			s.loop.dup = &conn
		}
	}
	if s.loop.dup == nil {
		return nil
	}
	return *s.loop.dup
}

func (c *loopConn) remote() net.Addr {
	if c.peer.IsValid() {
		return net.TCPAddrFromAddrPort(c.peer)
	}
	return c.loop.ends.Remote
}

func (c *loopConn) local() net.Addr { return c.loop.ends.Local }

// The methods that the Writer calls: see [writer.Conn]. Those for zero copy are in zerocopy_linux.go.

func (c *loopConn) Direct() bool { return true }

func (c *loopConn) TryWrite(b *buffer.Batch) (int, error) { return b.WriteTo(uintptr(c.fd)) }

func (c *loopConn) TryWriteBig(l *buffer.BigFrame) (int, error) {
	return l.WriteTo(uintptr(c.fd), &c.srv.pools.Read)
}

func (c *loopConn) HasPending() bool { return false }

func (c *loopConn) CloseWrite() bool { return syscall.Shutdown(int(c.fd), syscall.SHUT_WR) == nil }

func (c *loopConn) ArmWritable() {
	s := c.session()
	s.loop.stalledSince = s.srv.clock()
	s.updateInterestLocked()
	s.armLocked()
}

func (s *Session) waitsWritableLocked() bool { return s.out.State() == writer.WaitWritable }

// interestLocked returns the events for which the loop is to watch the descriptor.
func (s *Session) interestLocked() eventloop.Events {
	var in eventloop.Events
	waits := s.waitsWritableLocked()
	if waits && !s.loop.stuck {
		in = eventloop.Out
	}
	switch {
	case s.loop.reg.Offloaded, s.loop.readClosed, s.out.Overloaded():
		in |= eventloop.OneShot
	case !s.opened && (s.loop.tls != nil || s.runsOffLoopLocked()):
		in |= eventloop.Out | eventloop.OneShot
	case !s.opened:
		in = readOrWrite
	case s.runsOffLoopLocked():
		in |= eventloop.In | eventloop.OneShot
	case waits || s.loop.tls != nil:
		in |= eventloop.In
	default:
		in |= readOnly
	}
	return in
}

// The interests of a session that waits for nothing else. With readOrWrite the first report comes at once, because there is room. No further one
// comes for room: the kernel reports room only after a write that failed for lack of it, and then the interest is another. So the interest stays
// readOrWrite afterwards, which saves a system call.
const (
	readOnly    = eventloop.In | eventloop.PeerEnd | eventloop.Edge
	readOrWrite = readOnly | eventloop.Out
)

// updateInterestLocked sets the interest at the loop if it has changed.
func (s *Session) updateInterestLocked() {
	if s.fd < 0 || !s.loop.reg.IsAdded() {
		return
	}
	in, old := s.interestLocked(), s.loop.reg.Interest()
	if in == old || in == readOnly && old == readOrWrite || in == eventloop.OneShot && old == 0 && !s.unreportedLocked() {
		return
	}
	if err := s.loop.on.SetInterest(&s.loop.reg, s.fd, in); err != nil {
		s.failLocked(ByError, err)
	}
}

// stuckFor is how long a session pauses its writes after the kernel has reported room and then taken nothing.
const stuckFor = time.Second

// pauseWritesLocked is called when nothing could be written although the kernel has reported room. If the kernel has no memory left for any
// connection, it reports that again and again. Without a pause the sessions that wait for room would take all dispatches.
func (s *Session) pauseWritesLocked() {
	s.loop.stuck = true
	s.armLocked()
}
