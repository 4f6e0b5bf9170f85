package eventloop

// Table holds values by ids that the kernel can keep. If the kernel reports an event late, for a value that has been removed, the event is not
// attributed to the value that has its slot now. The zero value is empty. A Table must not be used concurrently.
type Table[T any] struct {
	slots []slot[T]
	free  []uint32 // slots without a value
}

type slot[T any] struct {
	value      T
	generation uint32 // of the value that is in the slot, or comes next
	taken      bool
}

// Add adds a value and returns its id: the number of its slot in the lower half, and in the upper half how many values had the slot before, modulo
// 2^32. So an id is used again after four billion values had the same slot.
func (t *Table[T]) Add(v T) (id uint64) {
	var n uint32
	if last := len(t.free) - 1; last >= 0 {
		n = t.free[last]
		t.free = t.free[:last]
	} else {
		n = uint32(len(t.slots)) //nolint:gosec // far fewer
		t.slots = append(t.slots, slot[T]{})
	}
	s := &t.slots[n]
	s.value, s.taken = v, true
	return uint64(s.generation)<<32 | uint64(n)
}

// Remove removes the value with an id. It panics if there is none, because two values would get the same slot.
func (t *Table[T]) Remove(id uint64) {
	n := uint32(id) //nolint:gosec // the lower half
	if _, ok := t.At(id); !ok {
		panic("eventloop: id removed twice")
	}
	t.slots[n] = slot[T]{generation: uint32(id>>32) + 1}
	t.free = append(t.free, n)
}

// At returns the value with an id, or the zero value and false if the value has been removed. The id must be one that Add has returned.
func (t *Table[T]) At(id uint64) (v T, ok bool) {
	s := &t.slots[uint32(id)] //nolint:gosec // the lower half
	if !s.taken || s.generation != uint32(id>>32) {
		return v, false
	}
	return s.value, true
}
