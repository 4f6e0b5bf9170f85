package goroutineconn

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/writer"
)

// Member is a session as its Conn runs it. The goroutine of the connection calls its methods, one after the other. Due, Help and the methods for
// writing may also be called by other goroutines. "The lock" is the mutex of the Writer.
type Member interface {
	// IsClosed reports whether the member is over, so that nothing is read or written any more. Any goroutine may call it.
	IsClosed() bool
	// Input returns the buffer that bytes are read into.
	Input() *buffer.Inbound

	// HandshakeTimeout bounds the TLS handshake; 0 is no bound.
	HandshakeTimeout() time.Duration
	// HandshakeFailed ends the member.
	HandshakeFailed(err error)
	// StartClocks starts the timeouts. The lock is held.
	StartClocks()
	// Begin opens the member, and handles what has come with the connection. Like the methods that follow, it reports whether to go on.
	Begin() bool
	// CatchUp is called before each wait. It waits until messages may be handled, and handles input that was left.
	CatchUp() bool
	// Received handles n bytes that have arrived in Input. It is called with little stack left on a goroutine's first 2 KiB.
	Received(n int) bool
	// IsPaused reports whether Received has left input for CatchUp.
	IsPaused() bool
	// TimerFired checks the timeouts, and reports whether a tick is due. The lock is held.
	TimerFired() (tick bool)
	// Tick handles a tick.
	Tick() bool
	// ReadEnded is called when the peer has ended the stream (io.EOF), or reading has failed.
	ReadEnded(err error)

	// Due returns the time at which TimerFired is to be called, by Config.Now; 0 is never. The lock is held.
	Due() int64
	// IsDone is called when nothing more is read. It reports whether nothing is left to write either, and otherwise when to give up; 0 is never.
	// The lock is held.
	IsDone() (done bool, giveUp int64)
	// Close ends the member if it has not ended.
	Close()
	// IsQuiet reports whether no helper goroutine works for a member that is closed. If one does, Conn.WakeLocked is called later. The lock is held.
	IsQuiet() bool
	// ConcludeAndUnlock is the last call. It releases the lock.
	ConcludeAndUnlock()

	// Writer returns the write path.
	Writer() *writer.Writer
	// WriteTimeout is for how long the peer may take nothing; 0 is no bound. The lock is held.
	WriteTimeout() time.Duration
	// Wrote counts n bytes that the connection took.
	Wrote(n int)
	// WriteFailed ends the member. The lock is held.
	WriteFailed(err error)
	// Help calls f on a helper goroutine. The lock is held.
	Help(f func())
}

// Config is what the connections of one server share.
type Config struct {
	Pools *buffer.Pools
	Now   func() int64 // monotonic nanoseconds
	Epoch time.Time    // the time at which Now returns 0
	// FreshAfter is for how long, in nanoseconds, a peer has to be silent until a new goroutine replaces that of the connection. A stack that has
	// grown never becomes as small as a new one, and most of an idle connection's memory is its stack.
	FreshAfter int64
}

// Conn runs one connection. The order of the fields is that of use: on 64-bit systems, what each message takes lies in one line of the cache.
type Conn struct {
	// Set when made.
	stream Stream
	m      Member

	// Owned by the goroutine.
	streak  uint8 // reads in a row that found bytes at once
	grown   bool  // its stack may have grown
	spoke   bool  // the peer has sent something since the timer last asked
	replace bool  // a new goroutine is to go on with the connection
	begun   bool  // Begin was called
	raw     rawState

	cfg  *Config // set when made, as is conn
	conn net.Conn
	// Guarded by the lock.
	freshAt int64         // when the timer asks next whether the peer was silent; 0 is never
	armed   int64         // the read deadline; 0 is none, −1 one that has passed
	changed chan struct{} // closed by WakeLocked; made by the goroutine that waits
}

// New returns a Conn that does nothing yet. Run runs it.
func New(conn net.Conn, m Member, cfg *Config) *Conn {
	c := &Conn{conn: conn, m: m, cfg: cfg}
	if c.stream = newRawStream(c); c.stream == nil {
		c.stream = (*netStream)(c)
	}
	return c
}

// NetConn returns the connection.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Stream returns how the connection is read and written.
func (c *Conn) Stream() Stream { return c.stream }

// SetStream replaces the stream. It is called before anything is read or written, or by Begin.
func (c *Conn) SetStream(s Stream) { c.stream = s }

// Run runs the connection until it is over. It is called on a new goroutine.
func (c *Conn) Run() {
	defer c.finish()
	goOn := c.begun || c.handshake() && c.m.Begin()
	for c.begun = true; goOn && !c.m.IsClosed(); {
		goOn = c.m.CatchUp() && c.goesOn(c.stream.Each())
	}
	if !c.replace {
		c.waitWritten()
	}
}

// yieldAfter is how many reads in a row may find bytes at once. Then the goroutine yields, and looks at the clock. Otherwise a peer that always sends
// more would keep the processor until it is preempted.
const yieldAfter = 16

// Yield makes the goroutine look at its timer before it reads again. Received may call it.
func (c *Conn) Yield() { c.streak = yieldAfter }

// readsOn is called after each Received, with its result, and reports whether the goroutine reads at once again.
func (c *Conn) readsOn(goOn bool) bool {
	if !goOn && !c.m.IsPaused() {
		return false
	}
	in := c.m.Input()
	if c.streak < yieldAfter { // otherwise Received has called Yield
		if c.streak++; in.Shrunk {
			c.streak = 0
		}
	}
	in.Shrunk = false
	if c.spoke = true; !c.grown {
		c.grown, c.streak = true, yieldAfter
	}
	return goOn && c.streak < yieldAfter
}

// goesOn reports whether the goroutine, which has returned from reading, reads on.
func (c *Conn) goesOn(err error) bool {
	switch {
	case err != nil:
		return c.readFailed(err) && !c.replace
	case c.m.IsPaused():
		return true
	case c.streak < yieldAfter:
		return false
	}
	c.m.Input().Shrink() // another connection may need the buffer meanwhile
	if c.streak = 0; c.freshAt == 0 {
		c.startFreshness()
	} else {
		runtime.Gosched()
	}
	return true
}

// startFreshness is called when the goroutine has handled something, so that its stack may have grown. Received does not call it, because setting a
// deadline would take even more stack.
func (c *Conn) startFreshness() {
	w := c.m.Writer()
	w.Lock()
	if c.freshAt = c.cfg.Now() + c.cfg.FreshAfter; !c.m.IsClosed() {
		c.ArmLocked()
	}
	w.Unlock()
}

// checkFreshnessLocked asks for a new goroutine if the peer was silent since it was called last.
func (c *Conn) checkFreshnessLocked() {
	now := c.cfg.Now()
	if c.freshAt == 0 || now < c.freshAt {
		return
	}
	if c.freshAt = now + c.cfg.FreshAfter; !c.spoke {
		c.replace, c.grown, c.freshAt = true, false, 0
	}
	c.spoke = false
}

// ArmLocked sets the timer: the read deadline, which only ever moves to an earlier time. When it has passed, the member looks at its clocks.
func (c *Conn) ArmLocked() {
	due, armed := c.m.Due(), c.armed
	if due == 0 || c.freshAt > 0 && c.freshAt < due {
		due = c.freshAt
	}
	if due == armed || armed > 0 && (due == 0 || armed < due) {
		return
	}
	var by time.Time
	if c.armed = due; due > 0 {
		by = c.cfg.Epoch.Add(time.Duration(due))
	}
	_ = c.conn.SetReadDeadline(by)
}

// handshake does the TLS handshake, if there is one, and starts the clocks. It reports whether to open the member. A member that was dialed may
// already be ending; then it goes on as if Open had been called before.
func (c *Conn) handshake() bool {
	if conn, ok := c.conn.(Handshaker); ok {
		if err := Handshake(conn, c.m.HandshakeTimeout()); err != nil {
			c.m.HandshakeFailed(err)
			return false
		}
	}
	w := c.m.Writer()
	w.Lock()
	defer w.Unlock()
	c.armed = -1 // the handshake had deadlines of its own
	c.m.StartClocks()
	return !c.m.IsClosed()
}

// Handshaker is a connection that begins with a handshake.
type Handshaker interface {
	net.Conn
	HandshakeContext(ctx context.Context) error
}

// Handshake does the handshake of conn within limit; 0 is no limit.
func Handshake(conn Handshaker, limit time.Duration) error {
	if limit > 0 {
		_ = conn.SetDeadline(time.Now().Add(limit))
	}
	if err := conn.HandshakeContext(context.Background()); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	return nil
}

// readFailed handles an error of reading, and reports whether to go on reading.
func (c *Conn) readFailed(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.m.ReadEnded(err)
		return false
	}
	w := c.m.Writer()
	w.Lock()
	c.armed = -1
	tick := c.m.TimerFired()
	c.checkFreshnessLocked()
	if !c.m.IsClosed() {
		c.ArmLocked()
	}
	w.Unlock()
	if tick {
		return c.m.Tick()
	}
	return !c.m.IsClosed()
}

// waitWritten waits until nothing is left to write, the member has ended, or its time is over.
func (c *Conn) waitWritten() {
	w := c.m.Writer()
	w.Lock()
	defer w.Unlock()
	var over <-chan time.Time
	for done, giveUp := c.m.IsDone(); !done; done, giveUp = c.m.IsDone() {
		changed := c.ChangedLocked()
		if over == nil && giveUp > 0 {
			timer := time.NewTimer(time.Duration(giveUp - c.cfg.Now()))
			defer timer.Stop()
			over = timer.C
		}
		w.Unlock()
		select {
		case <-changed:
			w.Lock()
		case <-over:
			w.Lock()
			return
		}
	}
}

// ChangedLocked returns a channel that the next WakeLocked closes.
func (c *Conn) ChangedLocked() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// WakeLocked wakes the goroutine if it waits for something else than bytes.
func (c *Conn) WakeLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// finish is the end of Run.
func (c *Conn) finish() {
	if c.replace {
		c.replace = false
		go c.Run()
		return
	}
	c.m.Close()
	c.stream.Close()
	w := c.m.Writer()
	w.Lock()
	for !c.m.IsQuiet() { // a helper, or a caller of Send or TryWrite, is about to notice the end
		changed := c.ChangedLocked()
		w.Unlock()
		<-changed
		w.Lock()
	}
	c.m.ConcludeAndUnlock()
}

// AbortLocked tells the peer that the connection is over, and wakes goroutines that wait for it. If the peer has reset the connection, there is no need
// to tell it.
func (c *Conn) AbortLocked(reset bool) {
	if rest := c.stream.Abort(reset); rest != nil {
		c.m.Help(rest)
	}
}

// ArmWritable writes the queue on a helper goroutine, which waits for room. The lock is held.
func (c *Conn) ArmWritable() { c.m.Help(c.writeQueue) }

// writeQueue writes the queue, waits for the peer, and ends when nothing is left. Any progress moves the write deadline.
func (c *Conn) writeQueue() {
	w := c.m.Writer()
	b := buffer.NewBatch() // one of the pool may have memory for encoding, which would be held while the peer does not read
	for first := true; ; first = false {
		l, more := w.Next(b, first)
		if !more {
			return
		}
		c.setWriteDeadline()
		var n int
		var err error
		if l != nil {
			n, err = c.stream.BlockingWriteBig(l)
		} else {
			n, err = c.stream.BlockingWrite(b)
		}
		c.m.Wrote(n)
		w.Lock()
		w.Done(l, n)
		if err != nil {
			c.m.WriteFailed(err)
		}
		w.Unlock()
	}
}

// setWriteDeadline gives the connection WriteTimeout to take something. It also removes the deadline of an earlier WriteTimeout.
func (c *Conn) setWriteDeadline() {
	w := c.m.Writer()
	w.Lock()
	limit := c.m.WriteTimeout()
	w.Unlock()
	var by time.Time
	if limit > 0 {
		by = time.Now().Add(limit)
	}
	_ = c.conn.SetWriteDeadline(by)
}
