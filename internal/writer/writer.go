package writer

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Conn is the connection under a Writer. At most one goroutine at a time is in TryWrite, TryWriteBig or CloseWrite.
type Conn interface {
	// Direct reports whether TryWrite works, which means that the connection can be written without blocking.
	Direct() bool
	// TryWrite writes as many bytes of b as the connection takes without blocking, and returns their number. Fewer than b.Size mean that
	// there is no room. The lock is not held.
	TryWrite(b *buffer.Batch) (int, error)
	// TryWriteBig is TryWrite for a big frame, which it advances past the written bytes.
	TryWriteBig(l *buffer.BigFrame) (int, error)
	// HasPending reports whether the connection holds bytes that it has accepted but could not send, such as the rest of a TLS record.
	// Another TryWrite, even of nothing, sends them.
	HasPending() bool
	// CloseWrite tells the peer that nothing follows, and reports whether the connection can do so and still be read. If the connection
	// has pending bytes afterwards, CloseWrite is called again when it has none. The lock is not held.
	CloseWrite() bool
	// ArmWritable asks the engine to call WriteQueue, or to begin its blocking writes, when the connection has room. The state is
	// WaitWritable. The lock is held.
	ArmWritable()
	// BeginBig is called before the first TryWriteBig of a frame and before each further one. The lock is held.
	BeginBig(l *buffer.BigFrame)
	// EndBig is called when a big frame has been written. It reports whether the kernel no longer refers to its memory. If the kernel
	// does, the connection finishes the frame later. The lock is held.
	EndBig(l *buffer.BigFrame) bool
}

// Owner is the session that a Writer belongs to. Its methods do not block.
type Owner interface {
	// Conn returns the connection.
	Conn() Conn
	// Err returns why no more frames are accepted. It is called after Finish and Abort only. The lock is held.
	Err() error
	// Fail ends the session. It calls Abort before it returns. The lock is held.
	Fail(reason Reason, err error)
	// Wrote counts n bytes that the connection took.
	Wrote(n int)
	// Lost counts n accepted bytes that could not be written because of Abort. The lock is held.
	Lost(n int)
	// Dropped counts n frames that were refused or dropped. The lock is held, and may be released meanwhile.
	Dropped(n int)
	// Now returns a monotonic time in nanoseconds.
	Now() int64
	// Drained is called when the Writer becomes idle after Finish or Abort. The lock is held, and may be released meanwhile.
	Drained()
	// Writable is called when TryWrite may be called again after a refusal. The lock is held.
	Writable()
	// Resumed is called when Overloaded has become false. The lock is held.
	Resumed()
	// WillBlock is called before the caller waits for the peer, and reports whether HandedOff is to be called without the lock then. The
	// lock is held.
	WillBlock() bool
	HandedOff()
	// HoldCork is called when the cork gets its first frame. It arranges for CorkTick to be called from time to time, or for PullCork if the
	// handler blocks, and reports whether it could. ReleaseCork ends that. The lock is held.
	HoldCork() bool
	ReleaseCork()
}

// Reason is why a Writer had to end its session.
type Reason uint8

// The reasons.
const (
	Broken   Reason = iota // a write failed
	TooSlow                // the queue is full, and the policy is CloseSlow
	TimedOut               // a caller has waited for room longer than WriteTimeout
)

// Config are the settings of a Writer. Many may share one, which must not change.
type Config struct {
	Pools        *buffer.Pools
	Bounds       buffer.Bounds // of the queue
	Policy       Policy        // for a full queue
	WriteTimeout time.Duration // how long a caller waits for room under the Wait policy; 0 is for ever
	CorkBytes    int           // how many bytes are corked at most, without the last frame
}

// State determines which goroutine writes: see the package comment.
type State uint8

// The states.
const (
	Idle State = iota
	Writing
	WaitWritable
)

// phase says whether frames are accepted.
type phase uint8

const (
	accepting phase = iota
	finishing       // what waits is still written
	aborted         // nothing is written
)

// Writer is the write path of one connection. Init makes one ready for use.
type Writer struct {
	// The order is that of use. A session among thousands is not in the processor's cache when a frame is sent to it.

	// Set by Init.
	owner Owner
	// All that follows is guarded by the mutex.
	cfg *Config

	state        State
	phase        phase
	corked       bool // frames go to the cork
	corkSeen     bool // CorkTick has seen frames in the cork
	corkHeld     bool // the owner has been asked to HoldCork
	wantWritable bool // TryWrite has refused a frame, and Writable is due
	handling     bool // the messages of one read are being handled
	neverPause   bool // see NeverPause
	sync.Mutex
	fd       int32         // the socket for single frames, or -1: see SetSocket
	overload atomic.Int32  // how many bytes have to be written until Overloaded is false; written under the mutex
	q        *buffer.Queue // frames that wait; nil if there are none
	cork     *buffer.Batch // frames that were sent while corked; nil if there is no memory for them yet
	encoder  Encoder
	waiters  *waiters // callers that wait for room, nil if there are none
}

// Init makes w ready for use, before any other method is called.
func (w *Writer) Init(o Owner, c *Config) { w.owner, w.cfg, w.fd = o, c, noSocket }

const noSocket = -1

// SetSocket has single frames written straight to a socket that does not block, without a call of Conn. The lock is held, or no
// other goroutine knows w yet.
func (w *Writer) SetSocket(fd int32) { w.fd = fd }

// Socket returns what SetSocket was last given, -1 if it was never called. The lock is held.
func (w *Writer) Socket() int32 { return w.fd }

// SetConfig changes the settings. The lock is held.
func (w *Writer) SetConfig(c *Config) {
	w.cfg = c
	if w.waiters != nil && w.q != nil {
		w.admitWaiters()
	}
}

// SetEncoder changes the encoder of frames that come without one. The lock is held.
func (w *Writer) SetEncoder(e Encoder) { w.encoder = e }

// State returns the state. The lock is held.
func (w *Writer) State() State { return w.state }

// IsEmpty reports whether the Writer is idle and no frame waits. The lock is held.
func (w *Writer) IsEmpty() bool { return w.state == Idle && w.q == nil }

// Queued returns the number of bytes that wait. Bytes that are being written count, and big frames do not.
func (w *Writer) Queued() int {
	w.Lock()
	defer w.Unlock()
	if w.q == nil {
		return 0
	}
	return w.q.Bytes()
}

// Waiters returns how many callers wait for room. The lock is held.
func (w *Writer) Waiters() int {
	if w.waiters == nil {
		return 0
	}
	return len(*w.waiters)
}

// BigFrames returns how many big frames wait. The lock is held.
func (w *Writer) BigFrames() int {
	if w.q == nil {
		return 0
	}
	return len(w.q.BigFrames())
}

// Finish ends accepting: everything that waits is written, then last, which may be empty, and then Drained is called. The lock is held.
func (w *Writer) Finish(last []byte) {
	w.phase = finishing
	w.failWaiters()
	w.resume()
	if w.state == Idle {
		w.queueCork(0)
	}
	if len(last) > 0 {
		w.queue().Add(buffer.Frame{B: bytes.Clone(last), At: w.now(), Kept: true})
	}
	switch {
	case w.state != Idle:
	case w.owner.Conn().Direct():
		w.finishWrite(true)
	default:
		w.waitForRoom()
	}
}

// Abort ends accepting, and has nothing more written. Callers that wait get the owner's error. A write that is running ends by itself, and then
// Drained is called; if none is running, Drained is not called. The lock is held.
func (w *Writer) Abort() {
	w.phase = aborted
	w.failWaiters()
}

// AbortBig ends the calls that wait for big frames with the owner's error, after the connection has let go of their memory. A frame that is being
// written is left to its writer. The lock is held.
func (w *Writer) AbortBig() {
	if w.q == nil || !w.q.HasBig() {
		return
	}
	err := w.owner.Err()
	for _, l := range w.q.BigFrames() {
		if !l.InFlight {
			l.Finish(err)
		}
	}
}

// Release gives all memory back, and returns the number of accepted bytes that could not be written. No goroutine may be writing. The lock is
// held.
func (w *Writer) Release() (lost int) {
	if w.cork != nil { // a handler has ended its goroutine
		lost = len(w.cork.Scratch)
		w.cfg.Pools.PutBatch(w.cork)
		w.cork = nil
	}
	w.endCork()
	if w.q != nil {
		lost += w.cfg.Pools.PutQueue(w.q)
		w.q = nil
	}
	return lost
}

// CloseWrite calls CloseWrite of the connection, while nothing else can be written. The Writer is idle. The lock is held.
func (w *Writer) CloseWrite() (ok bool) {
	w.state = Writing
	w.Unlock()
	ok = w.owner.Conn().CloseWrite()
	w.Lock()
	w.state = Idle
	return ok
}

// AwaitWritable has the engine call WriteQueue for the pending bytes of the connection. The Writer is idle. The lock is held.
func (w *Writer) AwaitWritable() { w.waitForRoom() }

// queue returns the queue, and takes one from the pool if there is none.
func (w *Writer) queue() *buffer.Queue {
	if w.q == nil {
		w.q = w.cfg.Pools.Queue()
	}
	return w.q
}

// bigAtFront returns the big frame that is to be written next, or nil.
func (w *Writer) bigAtFront() *buffer.BigFrame {
	if w.q == nil {
		return nil
	}
	return w.q.FrontBig()
}

// fill puts what waits into b, as much as fits, and returns how many bytes that is.
func (w *Writer) fill(b *buffer.Batch) int {
	if w.q == nil {
		return 0
	}
	w.q.FillBatch(b)
	return b.Size
}

// consume takes n written bytes off the queue.
func (w *Writer) consume(n int) {
	if w.q == nil {
		return
	}
	w.q.Written(n)
	w.admitWaiters()
	w.relieve(n)
}

// tryWrite enters the Writing state and offers b to the connection, without the lock. It returns how many bytes were taken, whether that was
// everything, and whether the Writer is still alive.
func (w *Writer) tryWrite(b *buffer.Batch) (n int, room, alive bool) {
	w.state = Writing
	w.Unlock()
	conn := w.owner.Conn()
	n, err := conn.TryWrite(b)
	w.owner.Wrote(n)
	w.Lock()
	if err != nil {
		w.owner.Fail(Broken, err)
	}
	return n, n == b.Size && !conn.HasPending(), w.phase != aborted
}

// maxRounds is how many writes a sender makes for other senders before it hands the queue to the engine.
const maxRounds = 16

// finishWrite leaves the Writing state, or does as if the Writer had been in it: it writes what was queued meanwhile, and then becomes idle, or
// waits for room if there is none.
func (w *Writer) finishWrite(room bool) {
	conn := w.owner.Conn()
	for round := 0; room && w.phase != aborted && w.q != nil && w.q.Len() > 0; round++ {
		if round == maxRounds || !conn.Direct() {
			room = false
			break
		}
		if l := w.bigAtFront(); l != nil {
			room = w.tryWriteBig(l)
			continue
		}
		b := w.cfg.Pools.Batch()
		w.fill(b)
		var n int
		n, room, _ = w.tryWrite(b)
		w.cfg.Pools.PutBatch(b)
		w.consume(n)
	}
	// If there is no room but nothing is left over, the engine is needed only if a caller of TryWrite waits for room.
	if !room && w.phase != aborted && (w.wantWritable || w.q != nil && w.q.Len() > 0 || conn.HasPending()) {
		w.waitForRoom()
		return
	}
	w.becomeIdle()
}

// waitForRoom hands the queue to the engine.
func (w *Writer) waitForRoom() {
	w.state = WaitWritable
	conn := w.owner.Conn()
	if w.q != nil && conn.Direct() { // otherwise it is not known that there is no room
		w.q.Compact(buffer.ChunkSize)
	}
	conn.ArmWritable()
}

// becomeIdle is called when nothing waits, or nothing will be written any more.
func (w *Writer) becomeIdle() {
	w.state = Idle
	w.resume()
	if w.phase != aborted && w.q != nil {
		w.cfg.Pools.PutQueue(w.q)
		w.q = nil
	}
	switch {
	case w.phase != accepting:
		w.owner.Drained() // after an abort, Release counts the bytes left in the queue
	case w.wantWritable:
		w.owner.Writable()
	}
}

// flushQueued is called after a frame was queued: it writes the queue if no other goroutine is going to.
func (w *Writer) flushQueued() {
	if w.state == Idle && w.q != nil && w.q.Len() > 0 {
		w.finishWrite(true)
	}
	if w.handling {
		w.pauseIfFull()
	}
}

// now is the time that frames in the queue carry. Without a bound on age it is not needed.
func (w *Writer) now() int64 {
	if w.cfg.Bounds.Age == 0 {
		return 0
	}
	return w.owner.Now()
}
