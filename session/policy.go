package session

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
)

// What happens when the outgoing queue is full. Under the Wait policy the frame of a blocked caller stands in line, already
// encoded, and is moved into the queue by whoever makes room, so that first come is first served.

// waiter is a caller that waits for room.
type waiter struct {
	f      buffer.Frame
	result chan error // capacity 1: nil when the frame is in the queue
}

// line is the callers that wait, at least one, the first first.
type line []*waiter

// admitLocked decides whether a frame of size bytes may be added to the queue. False without an error means: wait for it.
func (s *Session) admitLocked(size int, p Policy) (bool, error) {
	if !s.fullLocked(size) {
		return true, nil
	}
	switch p {
	case Refuse:
		s.droppedLocked(1)
		return false, ErrQueueFull
	case DropOldest:
		if dropped := s.q.MakeRoom(size, s.now(), &s.o.bounds); dropped > 0 {
			s.droppedLocked(dropped)
			if err := s.errLocked(); err != nil {
				return false, err
			}
		}
		if !s.fullLocked(size) {
			return true, nil
		}
		s.droppedLocked(1)
		return false, ErrQueueFull
	case CloseSlow:
		s.failLocked(BySlow, ErrQueueFull)
		return false, s.errLocked()
	default:
		return false, nil
	}
}

// fullLocked reports whether the queue is full for a frame of size bytes. Nobody overtakes who waits.
func (s *Session) fullLocked(size int) bool {
	return s.waiters != nil || s.q != nil && s.q.Full(size, s.now(), &s.o.bounds)
}

// wait waits until f is in the queue. It is called with mu held, and releases it.
func (s *Session) wait(f buffer.Frame) error {
	w := &waiter{f: f, result: make(chan error, 1)}
	if s.waiters == nil {
		s.waiters = new(line)
	}
	*s.waiters = append(*s.waiters, w)
	yielded := s.c.yieldLocked()
	limit := s.o.WriteTimeout
	s.mu.Unlock()
	if yielded {
		s.wasTakenOver()
	}

	if limit == 0 {
		return <-w.result
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-w.result:
		return err
	case <-timer.C:
	}
	s.mu.Lock()
	select {
	case err := <-w.result: // it came in at the last moment
		s.mu.Unlock()
		return err
	default:
	}
	s.failLocked(ByTimeout, fmt.Errorf("%w: the outgoing queue was full for %v", ErrTimeout, limit))
	s.mu.Unlock()
	return <-w.result
}

// letInLocked moves frames of waiters into the queue while there is room.
func (s *Session) letInLocked() {
	for s.waiters != nil && !s.q.Full(len((*s.waiters)[0].f.B), s.now(), &s.o.bounds) {
		w := (*s.waiters)[0]
		(*s.waiters)[0] = nil
		if *s.waiters = (*s.waiters)[1:]; len(*s.waiters) == 0 {
			s.waiters = nil
		}
		w.f.At = s.now()
		s.q.Add(w.f)
		w.result <- nil
	}
}

// turnAwayLocked tells all waiters that the session has ended.
func (s *Session) turnAwayLocked() {
	if s.waiters == nil {
		return
	}
	err := s.errLocked()
	for _, w := range *s.waiters {
		w.result <- err
	}
	s.waiters = nil
}
