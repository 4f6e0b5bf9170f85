package pending

// SetLast sets the id given out last.
func (t *Table[T]) SetLast(id int32) { t.last = id }

// Slots returns how many slots there are.
func (t *Table[T]) Slots() int { return len(t.slots) }
