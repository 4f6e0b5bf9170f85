package main

import "fmt"

// window is what one client has sent and what was answered, without I/O, clock or lock. Requests have the ids 1, 2, 3 and so on.
// They are answered in that order, each once; so it is enough to know the oldest that is not answered.
type window struct {
	last   uint64  // the id of the last request; 0 if there is none
	next   uint64  // the id of the request that was not sent yet
	oldest uint64  // the id of the oldest request without an answer; equal to next if there is none
	sentAt []int64 // when the requests in flight were sent for the first time, by id modulo the most that may be in flight
}

// newWindow makes a window for messages requests, or without end for 0, of which inFlight may be without an answer.
func newWindow(messages uint64, inFlight int) window {
	return window{last: messages, next: 1, oldest: 1, sentAt: make([]int64, inFlight)}
}

// take returns the id of the next request, if one may be sent now.
func (w *window) take(now int64) (id uint64, ok bool) {
	if w.next-w.oldest == uint64(len(w.sentAt)) || w.last > 0 && w.next > w.last {
		return 0, false
	}
	id = w.next
	w.next++
	w.sentAt[id%uint64(len(w.sentAt))] = now
	return id, true
}

// answer takes note of an answer, and returns when its request was sent for the first time. The error says that this answer should
// not have come now.
func (w *window) answer(id uint64) (sentAt int64, err error) {
	switch {
	case id == w.oldest && id < w.next:
		w.oldest++
		return w.sentAt[id%uint64(len(w.sentAt))], nil
	case id < w.oldest && id > 0:
		return 0, fmt.Errorf("a second answer to request %d", id)
	case id > w.oldest && id < w.next:
		return 0, fmt.Errorf("an answer to request %d, before that to %d", id, w.oldest)
	}
	return 0, fmt.Errorf("an answer to request %d, which was never sent", id)
}

// answered is how many requests were answered.
func (w *window) answered() uint64 { return w.oldest - 1 }

// pending is how many requests were sent and not answered.
func (w *window) pending() uint64 { return w.next - w.oldest }

// complete reports whether every request there is was answered.
func (w *window) complete() bool { return w.last > 0 && w.oldest > w.last }
