package session

import "sync"

// waitNode is an entry of a waitList. It must not be copied. Its Value is set before it is first added.
type waitNode[T any] struct {
	Value T

	prev, next *waitNode[T]
	waits      bool
}

// waitList is a FIFO list whose entries can be removed from anywhere, and put back at either end if their consumer is full. The zero value is
// empty. All methods may be called concurrently. Only Remove may be called during another call for the same node.
type waitList[T any] struct {
	mu sync.Mutex
	// Guarded by mu, as are the nodes.
	first, last *waitNode[T]
	length      int
	popped      int // how many are popped and not done
}

// Add adds n, which is not in the list, at the front if first is set, otherwise at the back.
func (l *waitList[T]) Add(n *waitNode[T], first bool) {
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

// Pop removes the first node and returns it, or nil if there is none. The caller calls Done after it has put the node back or used it.
func (l *waitList[T]) Pop() *waitNode[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.first
	if n != nil {
		l.removeLocked(n)
		l.popped++
	}
	return n
}

// Done ends the use of a node that Pop has returned.
func (l *waitList[T]) Done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.popped--
}

// Remove removes n, if it is in the list.
func (l *waitList[T]) Remove(n *waitNode[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.waits {
		l.removeLocked(n)
	}
}

func (l *waitList[T]) removeLocked(n *waitNode[T]) {
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

// Len returns how many nodes are in the list.
func (l *waitList[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// Waiting reports whether the list is not empty, or popped nodes may still be put back.
func (l *waitList[T]) Waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length+l.popped > 0
}
