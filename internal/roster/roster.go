// Package roster knows who is at work at present, where those are few of many who come and go all the time.
package roster

import "sync/atomic"

// tries is how many slots are looked at for a free one.
const tries = 4

// Roster has slots for 128. It may be used concurrently. The zero value is empty.
type Roster[T any] struct {
	slots [128]atomic.Pointer[T]
}

// Enter puts who, which is not nil, into a slot and returns its number, or −1 when none of those that belong to the key was free.
func (r *Roster[T]) Enter(who *T, key uint64) int {
	for i := range uint64(tries) {
		slot := (key + 31*i) % uint64(len(r.slots))
		if r.slots[slot].CompareAndSwap(nil, who) {
			return int(slot)
		}
	}
	return -1
}

// Leave empties a slot.
func (r *Roster[T]) Leave(slot int) { r.slots[slot].Store(nil) }

// All yields those who are in a slot when it comes to that.
func (r *Roster[T]) All(yield func(*T) bool) {
	for i := range r.slots {
		if who := r.slots[i].Load(); who != nil && !yield(who) {
			return
		}
	}
}

// IsEmpty reports whether nobody is in a slot.
func (r *Roster[T]) IsEmpty() bool {
	for range r.All {
		return false
	}
	return true
}
