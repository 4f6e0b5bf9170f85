package deflate

// Memory returns what an encoder holds, in bytes.
func (e *Encoder) Memory() int { return cap(e.buf) + 4*cap(e.heads) + 2*cap(e.chain) }

// Memory returns what a window holds, in bytes.
func (w *Window) Memory() int { return cap(w.buf) }

// SetPosition moves an encoder on to a position, as if so many bytes had come before.
func (e *Encoder) SetPosition(p uint32) { e.base = p }

// Position returns the position of the first byte that is kept.
func (e *Encoder) Position() uint32 { return e.base }

// MaxBase is where positions begin again.
const MaxBase = maxBase

// Lengths returns the lengths of a code.
func Lengths(freq []uint32, limit int) []uint8 {
	lens := make([]uint8, len(freq))
	new(builder).lengths(lens, freq, limit)
	return lens
}

// TableSizes returns how many entries the tables of a code take, and how many there may be.
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
