package deflate

// Memory returns the bytes of memory that an encoder holds.
func (e *Encoder) Memory() int { return cap(e.buf) + 4*cap(e.heads) + 2*cap(e.chain) }

// Memory returns the bytes of memory that a window holds.
func (w *Window) Memory() int { return cap(w.buf) }

// SetPosition moves an encoder to a position, as if so many bytes had been compressed.
func (e *Encoder) SetPosition(p uint32) { e.base = p }

// Position returns the position of the first byte of the context.
func (e *Encoder) Position() uint32 { return e.base }

// MaxBase is the position after which numbering begins again.
const MaxBase = maxBase

// Lengths returns the lengths of a code.
func Lengths(freq []uint32, limit int) []uint8 {
	lens := make([]uint8, len(freq))
	new(builder).lengths(lens, freq, limit)
	return lens
}

// TableSizes returns how many entries the tables of a code take, and the most that there may be.
func TableSizes(lens []uint8, isDist bool) (used, most int, ok bool) {
	var s sorter
	table, first, entries := make([]entry, 1<<16), uint(litBits), litEntries[:]
	most = litEntryMax
	if isDist {
		first, entries, most = distBits, distEntries[:], distMax
	}
	const untouched = 0xffffffff
	for i := range table {
		table[i] = untouched
	}
	if _, ok = s.build(table, first, lens, entries); !ok {
		return 0, most, false
	}
	for used < len(table) && table[used] != untouched {
		used++
	}
	return used, most, true
}
