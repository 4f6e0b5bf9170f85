// Package waitlist is a line of those who wait for somebody who may turn them away: then they are the first again, or the last. Who does not want
// to wait any more leaves from wherever in the line he is.
package waitlist

import "sync"

// Node is somebody's place. It must not be copied. Its Value is set before it is first added.
type Node[T any] struct {
	Value T

	prev, next *Node[T]
	waits      bool
}

// List is the line. The zero value is empty. Its methods may be called concurrently, those for one node one after the other, but for Drop,
// which may come at any time.
type List[T any] struct {
	mu sync.Mutex
	// Guarded by mu, as are the nodes.
	first, last *Node[T]
	length      int
	taken       int // how many are out of it whose answer is awaited
}

// Add puts n, which is not in the line, at one of its ends.
func (l *List[T]) Add(n *Node[T], first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.waits = true
	l.length++
	switch {
	case l.first == nil:
		l.first, l.last = n, n
	case first:
		n.next, l.first.prev, l.first = l.first, n, n
	default:
		n.prev, l.last.next, l.last = l.last, n, n
	}
}

// Take takes the first out of the line, and returns nil if there is none. Whoever gets one calls Answered when he has put it back, or need
// not.
func (l *List[T]) Take() *Node[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.first
	if n != nil {
		l.dropLocked(n)
		l.taken++
	}
	return n
}

// Answered is called once for each node of Take.
func (l *List[T]) Answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
}

// Drop takes n out of the line, if it is there.
func (l *List[T]) Drop(n *Node[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.waits {
		l.dropLocked(n)
	}
}

func (l *List[T]) dropLocked(n *Node[T]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.prev, n.next, n.waits = nil, nil, false
	l.length--
}

// Len returns how many are in the line.
func (l *List[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// Waiting reports whether the line is not empty, or may not be when all that were taken are answered.
func (l *List[T]) Waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length+l.taken > 0
}
