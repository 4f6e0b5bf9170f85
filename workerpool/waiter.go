package workerpool

import "time"

// waiter is a call of Submit that waits for room. The goroutine that makes room moves its task into the queue, in the order of arrival.
type waiter struct {
	task       func()
	result     chan error // capacity 1; receives nil when the task is in the queue
	timer      *time.Timer
	strand     *strand // in a Strand, the strand that the task goes to
	prev, next *waiter
	in         bool // in the line
}

// line is the list of waiters of one queue, in order of arrival. It keeps a few unused waiters, so that waiting does not allocate. The lock of
// the queue guards it.
type line struct {
	first, last *waiter
	free        *waiter
	kept        int
}

// keptWaiters is how many unused waiters a line keeps.
const keptWaiters = 16

// join appends a waiter with a task to the line.
func (l *line) join(task func(), s *strand) *waiter {
	w := l.free
	if w != nil {
		l.free = w.next
		l.kept--
	} else {
		w = &waiter{result: make(chan error, 1)}
	}
	w.task, w.strand, w.in = task, s, true
	w.prev, w.next = l.last, nil
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	return w
}

// leave takes w out of the line and sends it the result.
func (l *line) leave(w *waiter, err error) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.prev, w.next, w.task, w.strand, w.in = nil, nil, nil, nil, false
	w.result <- err
}

// rejectAll ends the wait of all waiters with err and returns their number.
func (l *line) rejectAll(err error) int {
	n := 0
	for l.first != nil {
		l.leave(l.first, err)
		n++
	}
	return n
}

// recycle keeps w for use again. The caller must hold the only reference to w.
func (l *line) recycle(w *waiter) {
	if l.kept < keptWaiters {
		w.next = l.free
		l.free = w
		l.kept++
	}
}

// await returns the result, or false if none has come within limit. Zero is no limit.
func (w *waiter) await(limit time.Duration) (error, bool) { //nolint:staticcheck // the error is the outcome of w, not of await
	if limit == 0 {
		return <-w.result, true
	}
	if w.timer == nil {
		w.timer = time.NewTimer(limit)
	} else {
		w.timer.Reset(limit)
	}
	defer w.timer.Stop()
	select {
	case err := <-w.result:
		return err, true
	case <-w.timer.C:
		return nil, false
	}
}
