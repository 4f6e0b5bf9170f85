package session

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// startDrainLocked hands the pen to a goroutine that waits for room.
func (s *Session) startDrainLocked() {
	s.pen = penDraining
	if s.q != nil && s.c.direct() { // elsewhere it is not known that there is no room
		s.q.settle(chunkSize)
	}
	s.transient.Go(s.drain)
}

// drain writes what waits, waiting for the peer, and ends when nothing is left. The write deadline is moved with each bit of
// progress.
func (s *Session) drain() {
	b := s.srv.pools.batch()
	defer s.srv.pools.putBatch(b)
	for first := true; s.lendDrain(b, first); first = false {
		if t := s.srv.o.WriteTimeout; t > 0 {
			_ = s.conn.SetWriteDeadline(time.Now().Add(t))
		}
		n, err := s.c.push(b)
		s.srv.shard(s).bytesOut.Add(uint64(n))
		s.pushed(n, err)
	}
}

// lendDrain puts what waits into b and reports whether there is something to do. When first is set there is even if nothing waits: a
// drain goroutine is also started to wait for room.
func (s *Session) lendDrain(b *batch, first bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.clear()
	if s.phase.Load() != phaseClosed && (s.lendLocked(b) > 0 || first) {
		return true
	}
	s.putDownLocked()
	return false
}

// pushed takes n written bytes off the queue.
func (s *Session) pushed(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writtenLocked(n)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.failLocked(ByTimeout, fmt.Errorf("%w: the peer took nothing for %v", ErrTimeout, s.srv.o.WriteTimeout))
	default:
		s.failLocked(ByError, fmt.Errorf("session: write: %w", err))
	}
}

// notify calls Writable as long as it is owed. Calls never overlap: whoever puts the pen down while this goroutine is at work
// leaves the next call to it.
func (s *Session) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.want && s.pen == penFree && s.phase.Load() == phaseOpen {
		s.want = false
		if s.h.Writable == nil {
			continue
		}
		s.mu.Unlock()
		s.guard("writable", func() { s.h.Writable(s) })
		s.mu.Lock()
	}
	s.notifying = false
}
