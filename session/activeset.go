package session

import "sync/atomic"

// slotTries is how many slots are tried for a free one.
const slotTries = 4

// activeSet holds the few members of a large population that are active at present, without a lock. It has 128 slots. All methods may be called
// concurrently. The zero value is empty.
type activeSet[T any] struct {
	slots [128]atomic.Pointer[T]
}

// Add puts m, which is not nil, into a slot and returns the number of the slot. If all slots that belong to the key are in use, Add returns -1.
func (a *activeSet[T]) Add(m *T, key uint64) int {
	for i := range uint64(slotTries) {
		slot := (key + 31*i) % uint64(len(a.slots))
		if a.slots[slot].CompareAndSwap(nil, m) {
			return int(slot)
		}
	}
	return -1
}

// Remove empties a slot.
func (a *activeSet[T]) Remove(slot int) { a.slots[slot].Store(nil) }

// All yields the member of each slot that is in use when All comes to that slot.
func (a *activeSet[T]) All(yield func(*T) bool) {
	for i := range a.slots {
		if m := a.slots[i].Load(); m != nil && !yield(m) {
			return
		}
	}
}

// IsEmpty reports whether no member is in a slot.
func (a *activeSet[T]) IsEmpty() bool {
	for range a.All {
		return false
	}
	return true
}
