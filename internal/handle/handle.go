// Package handle gives values numbers under which somebody else knows them, such as the kernel. What is said late of a value that has left
// is not taken for the one that has its place now.
package handle

// Table holds values by their handles. The zero value is empty. It must not be used concurrently.
type Table[T any] struct {
	rows []row[T]
	free []uint32 // places without a value
}

type row[T any] struct {
	value      T
	generation uint32 // of the value that is there, or comes next
	taken      bool
}

// Add puts a value into the table and returns its handle: the place in the lower half, in the upper half how many values had it before,
// modulo 2^32. So a handle is not another's until four billion values have had the same place.
func (t *Table[T]) Add(v T) (handle uint64) {
	var place uint32
	if n := len(t.free); n > 0 {
		place = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		place = uint32(len(t.rows))
		t.rows = append(t.rows, row[T]{})
	}
	r := &t.rows[place]
	r.value, r.taken = v, true
	return uint64(r.generation)<<32 | uint64(place)
}

// Remove takes the value with a handle out. It panics if that is not there, as two would get its place.
func (t *Table[T]) Remove(handle uint64) {
	place := uint32(handle)
	if _, ok := t.At(handle); !ok {
		panic("handle: removed twice")
	}
	t.rows[place] = row[T]{generation: uint32(handle>>32) + 1}
	t.free = append(t.free, place)
}

// At returns the value with a handle, if it is there. The handle must be one that Add has returned.
func (t *Table[T]) At(handle uint64) (v T, ok bool) {
	r := &t.rows[uint32(handle)]
	return r.value, r.taken && r.generation == uint32(handle>>32)
}
