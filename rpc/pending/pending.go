// Package pending has the table of the calls of one connection that wait for their answers.
//
// A call is added and gets a sequence id; the first to take it by that id has it, and all others find nothing: the answer, a deadline, a cancellation and the end of the
// connection may come at the same time. Ids go up from 1 and begin anew after 2³¹−1, so an answer that comes late, or twice, finds nothing, unless two
// thousand million calls were made since.
//
//	calls := pending.New[*call](0)
//	id, err := calls.Add(c)      // and send it
//	c, ok := calls.Get(id)       // when a part of the answer has come
//	c, ok := calls.Take(id)      // when the answer has come, or the deadline
//	left := calls.Close(cause)   // when the connection has ended: all others find nothing
//
// The table is an array of slots, twice as many as there are calls at most, rounded up to a power of two. The slot of a call is its id modulo their
// number. An id whose slot a slow call occupies is passed over. So ids are unique without a map, and adding and taking allocates nothing but when the
// table grows.
package pending

import (
	"errors"
	"math"
	"sync"
)

// ErrFull says that as many calls wait for answers as the table may have.
var ErrFull = errors.New("too many calls wait for answers")

// DefaultLimit is how many calls a table may have by default.
const DefaultLimit = 16_384

// minSlots is how many slots a table has at least.
const minSlots = 8

// Table is the calls of one connection that wait for their answers. All methods may be called concurrently. None of them waits.
type Table[T any] struct {
	mu     sync.Mutex
	limit  int
	slots  []slot[T] // guarded by mu, as what follows; a power of two
	count  int
	last   int32 // the id given out last
	closed error
}

// slot is a call, or free if the id is 0.
type slot[T any] struct {
	id   int32
	call T
}

// New returns a table for at most limit calls; 0 is [DefaultLimit]. A limit above 2²⁸, and a negative one, is 2²⁸.
func New[T any](limit int) *Table[T] {
	const most = 1 << 28
	switch {
	case limit == 0:
		limit = DefaultLimit
	case limit < 0 || limit > most:
		limit = most
	}
	return &Table[T]{limit: limit}
}

// Add adds a call and returns its id, which is positive. The errors are [ErrFull], and the cause that Close was called with.
func (t *Table[T]) Add(call T) (id int32, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed != nil:
		return 0, t.closed
	case t.count >= t.limit:
		return 0, ErrFull
	case 2*t.count >= len(t.slots):
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	for {
		if t.last == math.MaxInt32 {
			t.last = 0
		}
		t.last++
		if s := &t.slots[int(t.last)&(len(t.slots)-1)]; s.id == 0 {
			s.id, s.call = t.last, call
			t.count++
			return t.last, nil
		}
	}
}

// Take removes a call and returns it. It reports false if there is no call with that id any more.
func (t *Table[T]) Take(id int32) (call T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id <= 0 || len(t.slots) == 0 {
		return call, false
	}
	s := &t.slots[int(id)&(len(t.slots)-1)]
	if s.id != id {
		return call, false
	}
	call = s.call
	*s = slot[T]{}
	t.count--
	if t.count == 0 && len(t.slots) > 128*minSlots { // the connection was busy once
		t.slots = nil
	}
	return call, true
}

// Get returns a call and leaves it in the table. It reports false if there is no call with that id any more. Another goroutine may take the call at
// the same time.
func (t *Table[T]) Get(id int32) (call T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id <= 0 || len(t.slots) == 0 {
		return call, false
	}
	if s := &t.slots[int(id)&(len(t.slots)-1)]; s.id == id {
		return s.call, true
	}
	return call, false
}

// resize moves the calls to more slots. Ids that differ modulo the number of slots differ modulo its multiple.
func (t *Table[T]) resize(slots int) {
	before := t.slots
	t.slots = make([]slot[T], slots)
	for _, s := range before {
		if s.id != 0 {
			t.slots[int(s.id)&(slots-1)] = s
		}
	}
}

// Len returns how many calls wait.
func (t *Table[T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Close removes all calls and returns them, in the order of their slots. From now on Add fails with cause, which must not be nil. Closing again returns
// nothing, and the first cause stays.
func (t *Table[T]) Close(cause error) []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil
	}
	t.closed = cause
	left := make([]T, 0, t.count)
	for i := range t.slots {
		if t.slots[i].id != 0 {
			left = append(left, t.slots[i].call)
		}
	}
	t.slots, t.count = nil, 0
	return left
}
