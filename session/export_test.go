package session

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/goroutineconn"
)

// Access to the parts of a session for tests.

// HasQueueOrWriter reports whether frames are queued, or a goroutine is writing.
func (s *Session) HasQueueOrWriter() bool {
	s.out.Lock()
	defer s.out.Unlock()
	return !s.out.IsEmpty()
}

// Handling reports whether a dispatch is under way that has handled, or will handle, messages. What is written meanwhile by whatever goroutine counts
// as its replies: if there is too much of it, the session reads nothing until the peer has taken it.
func (s *Session) Handling() bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.out.Handling()
}

// Direct reports whether the connection can be written without blocking.
func (s *Session) Direct() bool { return s.c.Direct() }

// PendingConns returns how many connections of srv have no session yet.
func PendingConns(srv *Server) int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return len(srv.pending)
}

// CountWrites counts how often the session writes to its connection from now on. To be called in Open.
func CountWrites(s *Session) *atomic.Int64 {
	writes := new(atomic.Int64)
	if s.gor != nil {
		s.gor.SetStream(&countingStream{Stream: s.gor.Stream(), writes: writes})
	} else {
		s.c = &countingEngine{engineConn: s.c, writes: writes}
		s.out.SetSocket(noSocket)
	}
	return writes
}

type countingEngine struct {
	engineConn
	writes *atomic.Int64
}

func (c *countingEngine) TryWrite(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.engineConn.TryWrite(b)
}

type countingStream struct {
	goroutineconn.Stream
	writes *atomic.Int64
}

func (c *countingStream) TryWrite(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.Stream.TryWrite(b)
}

func (c *countingStream) BlockingWrite(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.Stream.BlockingWrite(b)
}

// Valve makes the session's connection take only as many bytes as the test allows, as if it were a socket. To be called in Open of a session
// with a goroutine. After that, only the end of the session reaches the real connection.
func Valve(s *Session) *ValveStream {
	v := &ValveStream{Stream: s.gor.Stream()}
	v.cond.L = &v.mu
	s.gor.SetStream(v)
	return v
}

// ValveStream is a connection in memory whose room the test controls.
type ValveStream struct {
	goroutineconn.Stream
	mu      sync.Mutex
	cond    sync.Cond
	room    int
	got     []byte
	aborted bool
	fail    error
	during  func()
	stuck   bool // a drain goroutine waits for room, with a batch
}

// Give makes room for n more bytes.
func (v *ValveStream) Give(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.room += n
	v.cond.Broadcast()
}

// Fail makes the next write fail.
func (v *ValveStream) Fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fail = err
	v.cond.Broadcast()
}

// Got returns the bytes that were written so far.
func (v *ValveStream) Got() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return string(v.got)
}

// Stuck reports whether a drain goroutine waits for room. Its batch does not change then.
func (v *ValveStream) Stuck() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stuck
}

// During calls f inside the next Offer, while no lock is held.
func (v *ValveStream) During(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.during = f
}

func (v *ValveStream) Direct() bool { return true }

func (v *ValveStream) TryWrite(b *buffer.Batch) (int, error) {
	v.mu.Lock()
	during := v.during
	v.during = nil
	v.mu.Unlock()
	if during != nil {
		during()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.takeLocked(b)
}

func (v *ValveStream) takeLocked(b *buffer.Batch) (n int, err error) {
	if v.fail != nil {
		return 0, v.fail
	}
	for _, p := range b.Parts {
		take := min(len(p), v.room)
		v.got = append(v.got, p[:take]...)
		v.room -= take
		n += take
	}
	return n, nil
}

func (v *ValveStream) BlockingWrite(b *buffer.Batch) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stuck = true
	for v.room == 0 && v.fail == nil && !v.aborted {
		v.cond.Wait()
	}
	v.stuck = false
	if v.aborted {
		return 0, io.ErrClosedPipe
	}
	return v.takeLocked(b)
}

func (v *ValveStream) Abort(reset bool) func() {
	v.mu.Lock()
	v.aborted = true
	v.cond.Broadcast()
	v.mu.Unlock()
	return v.Stream.Abort(reset)
}

// IsOverloaded reports whether messages wait until more has been written.
func (s *Session) IsOverloaded() bool { return s.out.Overloaded() }

// Waiters returns how many callers wait for room.
func (s *Session) Waiters() int {
	s.out.Lock()
	defer s.out.Unlock()
	return s.out.Waiters()
}

// SetFreshAfter changes how long a peer is silent before a new goroutine replaces the session's. To be called before there are sessions.
func SetFreshAfter(srv *Server, d time.Duration) { srv.shared.FreshAfter = int64(d) }

// InputReleased reports whether the session released its read buffer before the bytes arrived that are being handled. To be called in Message of
// a session with a goroutine.
func InputReleased(s *Session) bool { return s.in.Shrunk }

// Finishing reports whether the session is closed, but a write or a helper goroutine is still in progress.
func (s *Session) Finishing() bool {
	s.out.Lock()
	defer s.out.Unlock()
	return s.phase.Load() == phaseClosed && !s.quietLocked()
}

// CorkedSessions returns how many sessions are in the watchdog's set.
func CorkedSessions(srv *Server) (n int) {
	for range srv.watchdog.corked.All {
		n++
	}
	return n
}

// Took returns how many bytes the connection took, and how many frames the policy refused or dropped. The server has fewer sessions than shards
// of counters.
func Took(s *Session) (bytes, drops int) {
	c := s.srv.shard(s)
	return int(c.bytesOut.Load()), int(c.drops.Load())
}

// PendingTasks returns how many sessions have a task that has not begun.
func PendingTasks(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.out.Lock()
		if s.task.pending {
			n++
		}
		s.out.Unlock()
	}
	return n
}

// Larges returns how many large frames wait in the queue.
func Larges(s *Session) int {
	s.out.Lock()
	defer s.out.Unlock()
	return s.out.BigFrames()
}

// Ending reports whether the session is ending.
func Ending(s *Session) bool { return s.phase.Load() == phaseEnding }

// QueuedTasks returns how many tasks are in the queue of srv.
func QueuedTasks(srv *Server) int { return srv.tasks.Len() }

// Types that have tests of their own.
type (
	AnyValue         = anyValue
	ActiveSet[T any] = activeSet[T]
	WaitNode[T any]  = waitNode[T]
	WaitList[T any]  = waitList[T]
)
