// Package roster knows who is at work at present, when that is few of many who come and go all the time.
package roster

import "sync/atomic"

// tries is how many places are looked at for a free one.
const tries = 4

// Roster has places for 128. It may be used concurrently. The zero value is empty.
type Roster[T any] struct {
	places [128]atomic.Pointer[T]
}

// Enter puts who, which is not nil, into a place and returns its number, or −1 when none of those that belong to the key was free.
func (r *Roster[T]) Enter(who *T, key uint64) int {
	for i := range uint64(tries) {
		place := (key + 31*i) % uint64(len(r.places))
		if r.places[place].CompareAndSwap(nil, who) {
			return int(place)
		}
	}
	return -1
}

// Leave empties a place.
func (r *Roster[T]) Leave(place int) { r.places[place].Store(nil) }

// All yields those who are in a place when it comes to that.
func (r *Roster[T]) All(yield func(*T) bool) {
	for i := range r.places {
		if who := r.places[i].Load(); who != nil && !yield(who) {
			return
		}
	}
}

// IsEmpty reports whether nobody is in a place.
func (r *Roster[T]) IsEmpty() bool {
	for range r.All {
		return false
	}
	return true
}
