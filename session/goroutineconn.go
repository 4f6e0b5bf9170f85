package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/goroutineconn"
	"github.com/sluice-push/sluice/internal/writer"
)

// goroutineConn is the engine of a session that has a goroutine of its own: see package internal/goroutineconn.
type goroutineConn Session

var (
	_ engineConn           = (*goroutineConn)(nil)
	_ goroutineconn.Member = (*goroutineConn)(nil)
)

// freshAfter is for how long a peer has to be silent until a new goroutine with a small stack replaces the session's.
const freshAfter = 10 * time.Second

// spareKept is how many spare goroutines are kept for new sessions. A spare goroutine has a stack that has grown already.
const spareKept = 64

// onGoroutine makes s a session with a goroutine of its own.
func (s *Session) onGoroutine(conn net.Conn) {
	s.c = (*goroutineConn)(s)
	s.gor = goroutineconn.New(conn, (*goroutineConn)(s), &s.srv.shared)
}

func (c *goroutineConn) session() *Session { return (*Session)(c) }

func (c *goroutineConn) start() { c.srv.spare.Run(c.gor) }

func (c *goroutineConn) reject() { _ = c.gor.NetConn().Close() }

func (c *goroutineConn) armLocked() { c.gor.ArmLocked() }

func (c *goroutineConn) abortLocked() { c.gor.AbortLocked(c.reset) }

func (c *goroutineConn) changedLocked() {
	if s := c.session(); s.phase.Load() == phaseClosed && s.cancelTaskLocked() {
		s.task.done <- false
	}
	c.gor.WakeLocked()
}

func (c *goroutineConn) resumeLocked() { c.changedLocked() }

func (c *goroutineConn) willBlockLocked() bool { return false }

func (c *goroutineConn) execute() {
	goOn := false
	c.task.running = true
	defer func() { // deferred, because a handler may end the goroutine
		c.task.running = false
		c.task.done <- goOn
	}()
	goOn = c.session().doPart(c.task.part, c.task.n)
}

func (c *goroutineConn) net() net.Conn    { return c.gor.NetConn() }
func (c *goroutineConn) remote() net.Addr { return c.gor.NetConn().RemoteAddr() }
func (c *goroutineConn) local() net.Addr  { return c.gor.NetConn().LocalAddr() }

// The methods that goroutineconn.Conn calls: see [goroutineconn.Member].

func (c *goroutineConn) IsClosed() bool                  { return c.phase.Load() == phaseClosed }
func (c *goroutineConn) Input() *buffer.Inbound          { return &c.in }
func (c *goroutineConn) HandshakeTimeout() time.Duration { return c.o.HandshakeTimeout }
func (c *goroutineConn) StartClocks()                    { c.session().startClocksLocked() }
func (c *goroutineConn) CatchUp() bool                   { return c.session().catchUp() }
func (c *goroutineConn) IsPaused() bool                  { return c.paused }
func (c *goroutineConn) TimerFired() (tick bool)         { return c.session().checkClocksLocked() }
func (c *goroutineConn) ReadEnded(err error)             { c.session().readEnded(err) }
func (c *goroutineConn) Due() int64                      { return c.session().dueLocked() }
func (c *goroutineConn) Close()                          { c.session().fail(ByLocal, ErrClosed) }
func (c *goroutineConn) IsQuiet() bool                   { return c.session().quietLocked() }
func (c *goroutineConn) ConcludeAndUnlock()              { c.session().concludeAndUnlock() }
func (c *goroutineConn) Writer() *writer.Writer          { return &c.out }
func (c *goroutineConn) WriteTimeout() time.Duration     { return c.o.WriteTimeout }
func (c *goroutineConn) Wrote(n int)                     { c.srv.shard(c.session()).bytesOut.Add(uint64(n)) }
func (c *goroutineConn) Help(f func())                   { c.session().helpLocked(f) }

func (c *goroutineConn) IsDone() (done bool, giveUp int64) {
	return c.session().inputEndedLocked(), c.endBy
}

func (c *goroutineConn) HandshakeFailed(err error) { c.session().handshakeFailed(err) }

func (s *Session) handshakeFailed(err error) {
	err = fmt.Errorf("session: TLS handshake: %w", err)
	s.srv.refused(s.RemoteAddr(), err)
	s.fail(ByError, err)
}

func (c *goroutineConn) WriteFailed(err error) {
	s := c.session()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.failLocked(ByTimeout, s.stallError())
		return
	}
	s.failLocked(ByError, fmt.Errorf("session: write: %w", err))
}

func (c *goroutineConn) Begin() bool {
	s := c.session()
	if s.task != nil {
		return s.runPart(partOpen, 0) && (len(s.in.Unread()) == 0 || s.runPart(partFirst, 0))
	}
	return s.open() && (len(s.in.Unread()) == 0 || s.doPart(partFirst, 0))
}

func (c *goroutineConn) Received(n int) bool {
	s := c.session()
	if s.o.IdleTimeout > 0 {
		s.lastRead.Store(s.srv.clock())
	}
	if s.task != nil {
		if !s.runPart(partRead, n) {
			return false
		}
	} else {
		s.cork()
		s.countRead(n)
		err := s.handle() // not receive: the handler needs the stack that is left
		goOn := s.goesOnAfter(err)
		s.handledAll(s.gor.Socket())
		if !goOn {
			return false
		}
	}
	if s.nextTick > 0 && s.srv.clock() >= s.nextTick {
		s.gor.Yield()
	}
	return !s.pauses() && s.phase.Load() != phaseClosed
}

func (c *goroutineConn) Tick() bool {
	s := c.session()
	if s.task != nil {
		return s.runPart(partTick, 0)
	}
	s.tick()
	return s.phase.Load() != phaseClosed
}

// The methods that the Writer calls: see [writer.Conn].

func (c *goroutineConn) Direct() bool                          { return c.gor.Stream().Direct() }
func (c *goroutineConn) TryWrite(b *buffer.Batch) (int, error) { return c.gor.Stream().TryWrite(b) }
func (c *goroutineConn) HasPending() bool                      { return false }
func (c *goroutineConn) CloseWrite() bool                      { return c.gor.Stream().CloseWrite() }
func (c *goroutineConn) ArmWritable()                          { c.gor.ArmWritable() }

func (c *goroutineConn) TryWriteBig(l *buffer.BigFrame) (int, error) {
	return c.gor.Stream().TryWriteBig(l)
}

func (c *goroutineConn) BeginBig(*buffer.BigFrame)    {}
func (c *goroutineConn) EndBig(*buffer.BigFrame) bool { return true }
