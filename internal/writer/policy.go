package writer

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
)

// Policy is what happens to a frame when the queue is full.
type Policy uint8

// The policies.
const (
	Wait       Policy = iota + 1 // the caller waits for room
	Refuse                       // ErrQueueFull
	DropOldest                   // older frames are dropped
	CloseSlow                    // the session ends
)

// ErrQueueFull is the error for a frame that found the queue full.
var ErrQueueFull = errors.New("session: outgoing queue is full")

// waiter is a caller that waits for room. Its frame is encoded already. The goroutine that makes room moves the frame into the queue, so that
// waiters are served in order.
type waiter struct {
	f      buffer.Frame
	result chan error // capacity 1: nil when the frame is in the queue
}

// waiters are the callers that wait, at least one, in order.
type waiters []*waiter

// admit decides whether a frame of size bytes may be added to the queue. False without an error means that the caller has to wait.
func (w *Writer) admit(size int) (bool, error) {
	if !w.isFull(size) {
		return true, nil
	}
	switch w.cfg.Policy {
	case Refuse:
		w.owner.Dropped(1)
		return false, ErrQueueFull
	case DropOldest:
		if dropped := w.q.MakeRoom(size, w.now(), &w.cfg.Bounds); dropped > 0 {
			w.owner.Dropped(dropped)
			if w.phase != accepting {
				return false, w.owner.Err()
			}
		}
		if !w.isFull(size) {
			return true, nil
		}
		w.owner.Dropped(1)
		return false, ErrQueueFull
	case CloseSlow:
		w.owner.Fail(TooSlow, ErrQueueFull)
		return false, w.owner.Err()
	default:
		return false, nil
	}
}

// isFull reports whether the queue is full for a frame of size bytes. No frame overtakes a waiter.
func (w *Writer) isFull(size int) bool {
	return w.waiters != nil || w.q != nil && w.q.Full(size, w.now(), &w.cfg.Bounds)
}

// wait waits until f is in the queue. It releases the lock meanwhile.
func (w *Writer) wait(f buffer.Frame) error {
	one := &waiter{f: f, result: make(chan error, 1)}
	if w.waiters == nil {
		w.waiters = new(waiters)
	}
	*w.waiters = append(*w.waiters, one)
	handedOff := w.owner.WillBlock()
	limit := w.cfg.WriteTimeout
	w.Unlock()
	defer w.Lock()
	if handedOff {
		w.owner.HandedOff()
	}
	if limit == 0 {
		return <-one.result
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-one.result:
		return err
	case <-timer.C:
	}
	w.timeOut(one, limit)
	return <-one.result
}

// timeOut ends the session of a waiter, unless its frame got into the queue at the last moment.
func (w *Writer) timeOut(one *waiter, limit time.Duration) {
	w.Lock()
	defer w.Unlock()
	if len(one.result) == 0 {
		w.owner.Fail(TimedOut, fmt.Errorf("the outgoing queue was full for %v", limit))
	}
}

// admitWaiters moves frames of waiters into the queue while there is room.
func (w *Writer) admitWaiters() {
	for w.waiters != nil && !w.q.Full(len((*w.waiters)[0].f.B), w.now(), &w.cfg.Bounds) {
		one := (*w.waiters)[0]
		(*w.waiters)[0] = nil
		if *w.waiters = (*w.waiters)[1:]; len(*w.waiters) == 0 {
			w.waiters = nil
		}
		one.f.At = w.now()
		w.q.Add(one.f)
		one.result <- nil
	}
}

// failWaiters tells all waiters that no more frames are accepted.
func (w *Writer) failWaiters() {
	if w.waiters == nil {
		return
	}
	err := w.owner.Err()
	for _, one := range *w.waiters {
		one.result <- err
	}
	w.waiters = nil
}
