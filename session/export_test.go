package session

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Doors for the tests of the plain structs inside.

// Holds reports whether the session holds a queue or the pen.
func (s *Session) Holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.q != nil || s.pen != penFree
}

// Direct reports whether the connection can be written without blocking.
func (s *Session) Direct() bool { return s.c.direct() }

// Arriving returns how many connections may become sessions of srv.
func Arriving(srv *Server) int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return len(srv.arriving)
}

// CountWrites counts from now on how often the session writes to its connection. To be called in Open.
func CountWrites(s *Session) *atomic.Int64 {
	writes := new(atomic.Int64)
	if s.own != nil {
		s.own.io = &countingStream{stream: s.own.io, writes: writes}
	} else {
		s.c = &countingCarrier{carrier: s.c, writes: writes}
	}
	return writes
}

type countingCarrier struct {
	carrier
	writes *atomic.Int64
}

func (c *countingCarrier) offer(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.carrier.offer(b)
}

type countingStream struct {
	stream
	writes *atomic.Int64
}

func (c *countingStream) offer(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.stream.offer(b)
}

func (c *countingStream) push(b *buffer.Batch) (int, error) {
	c.writes.Add(1)
	return c.stream.push(b)
}

// Valve makes the session's connection take only as many bytes as the test lets it, as if it were a socket. To be called in
// Open of a session with a goroutine; after that nothing reaches the real connection but its end.
func Valve(s *Session) *ValveStream {
	v := &ValveStream{stream: s.own.io}
	v.cond.L = &v.mu
	s.own.io = v
	return v
}

// ValveStream is a connection in memory with room that the test gives.
type ValveStream struct {
	stream
	mu      sync.Mutex
	cond    sync.Cond
	room    int
	got     []byte
	aborted bool
	fail    error
	during  func()
	stuck   bool // a drain goroutine waits for room, with what it was lent
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

// Got returns what was written so far.
func (v *ValveStream) Got() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return string(v.got)
}

// Stuck reports whether a drain goroutine waits for room: what it was lent is settled then.
func (v *ValveStream) Stuck() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stuck
}

// During calls f inside the next offer, while nothing is locked.
func (v *ValveStream) During(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.during = f
}

func (v *ValveStream) direct() bool { return true }

func (v *ValveStream) offer(b *buffer.Batch) (int, error) {
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

func (v *ValveStream) push(b *buffer.Batch) (int, error) {
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

func (v *ValveStream) abort() func() {
	v.mu.Lock()
	v.aborted = true
	v.cond.Broadcast()
	v.mu.Unlock()
	return v.stream.abort()
}

// Pauses reports whether messages wait until more has been written.
func (s *Session) Pauses() bool { return s.unwritten.Load() > 0 }

// Waiters returns how many callers wait for room.
func (s *Session) Waiters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters == nil {
		return 0
	}
	return len(*s.waiters)
}

// SetFreshAfter changes how long a peer is silent before a session's goroutine is relieved. To be called before there are sessions.
func SetFreshAfter(srv *Server, d time.Duration) { srv.freshAfter = int64(d) }

// Rested tells whether the session gave up its read buffer before the bytes came that are being handled. To be called in Message of a
// session with a goroutine.
func Rested(s *Session) bool { return s.in.Rested }

// Finishing reports whether the session is over but for a caller that is in the middle of a write.
func (s *Session) Finishing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase.Load() == phaseClosed && !s.quietLocked()
}

// Watched returns how many sessions have announced themselves to the watch.
func Watched(srv *Server) (n int) {
	for range srv.watch.corked.All {
		n++
	}
	return n
}

// Took returns how many bytes the connection took and how many frames the policy refused or dropped, of a server with fewer sessions than
// there are shards of counters.
func Took(s *Session) (bytes, drops int) {
	c := s.srv.shard(s)
	return int(c.bytesOut.Load()), int(c.drops.Load())
}

// Owed returns how many sessions wait for their executor.
func Owed(srv *Server) (n int) {
	for s := range srv.Sessions() {
		s.mu.Lock()
		if s.errand.owed {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// Larges returns how many large frames wait in the queue.
func Larges(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q == nil {
		return 0
	}
	return len(s.q.Larges())
}

// Ending reports whether the session is ending.
func Ending(s *Session) bool { return s.phase.Load() == phaseEnding }

// InLine returns how many sessions wait in line for their executor.
func InLine(srv *Server) int { return srv.hiring.Len() }
