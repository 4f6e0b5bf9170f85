package workerpool

import "time"

// waiter is a Submit that waits for room. Its task is moved into the queue by whoever makes room, so that first come is first served.
type waiter struct {
	task       func()
	result     chan error // capacity 1: nil when the task is in the queue
	timer      *time.Timer
	strand     *strand // of a Strand: where the task goes
	prev, next *waiter
	in         bool // in the line
}

// line is who waits for room in one queue, in order of arrival, and a few waiters for use again, so that waiting does not allocate. It is
// guarded by the lock of the queue.
type line struct {
	first, last *waiter
	free        *waiter
	kept        int
}

// keptWaiters is how many unused waiters a line keeps.
const keptWaiters = 16

// join puts a task at the end of the line.
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

// leave takes w out of the line and tells it the outcome.
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

// turnAway tells all that they wait in vain, and returns how many they were.
func (l *line) turnAway(err error) int {
	n := 0
	for l.first != nil {
		l.leave(l.first, err)
		n++
	}
	return n
}

// recycle keeps w for use again. Nobody else may know it.
func (l *line) recycle(w *waiter) {
	if l.kept < keptWaiters {
		w.next = l.free
		l.free = w
		l.kept++
	}
}

// await returns the outcome, or false when there is none after limit. Zero is no limit.
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
