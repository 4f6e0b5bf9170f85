package delta

// Kept returns the number of bytes that an encoder keeps from one call to the next.
func (e *Encoder) Kept() int {
	kept := 4 * (cap(e.heads) + cap(e.links))
	for _, t := range []*tree{&e.old, &e.now} {
		kept += 36*cap(t.nodes) + 4*cap(t.slots) + cap(t.names)
	}
	return kept
}

// Holds reports whether an encoder keeps a reference to a value that it was given.
func (e *Encoder) Holds() bool { return e.old.text != nil || e.now.text != nil }
