package channel

// table holds the newest entry of each key. A row keeps its slot for as long as it exists, so that a walk over the slots that is
// interrupted and continued misses none; a list through the rows in the order of their offsets serves readers that keep up.
type table struct {
	rows   []row
	index  map[string]int32 // key → slot, tombstones included
	free   []int32          // slots without a row
	oldest int32            // ends of the list, none when it is empty
	newest int32
	graves []grave // tombstones, oldest first; some have been overtaken by a newer entry of their key
	dead   int     // tombstones that exist
	bytes  int64
}

type row struct {
	entry        *Entry // nil: the slot is free
	older, newer int32  // neighbours in offset order
}

type grave struct {
	slot   int32
	offset uint64
}

const none int32 = -1

func newTable() *table {
	return &table{index: map[string]int32{}, oldest: none, newest: none}
}

// live returns how many rows there are.
func (t *table) live() int { return len(t.index) - t.dead }

// removedSince reports whether more than most rows were removed after an offset and are not there again.
func (t *table) removedSince(offset uint64, most int) bool {
	if t.dead <= most {
		return false
	}
	for i := len(t.graves) - 1; i >= 0 && t.graves[i].offset > offset; i-- {
		if t.isGrave(t.graves[i]) {
			most--
		}
	}
	return most < 0
}

func (t *table) get(key string) *Entry {
	if i, ok := t.index[key]; ok {
		return t.rows[i].entry
	}
	return nil
}

// put makes e the newest entry of its key.
func (t *table) put(e *Entry) {
	i, found := t.index[e.Key]
	if found {
		old := t.rows[i].entry
		e.replace(old)
		e.Key = old.Key // one string for all versions of the row
		t.unlink(i)
		t.bytes -= int64(old.Size())
		if old.Removed() {
			t.dead--
		}
	} else {
		i = t.slot()
		t.index[e.Key] = i
	}
	t.rows[i].entry = e
	t.link(i)
	t.bytes += int64(e.Size())
	if e.Removed() {
		t.dead++
		t.bury(grave{i, e.Offset})
	}
}

func (t *table) slot() int32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	t.rows = append(t.rows, row{})
	return int32(len(t.rows) - 1) //nolint:gosec // two thousand million rows do not fit in memory
}

// link puts row i at the new end of the list.
func (t *table) link(i int32) {
	t.rows[i].older, t.rows[i].newer = t.newest, none
	if t.newest == none {
		t.oldest = i
	} else {
		t.rows[t.newest].newer = i
	}
	t.newest = i
}

func (t *table) unlink(i int32) {
	r := t.rows[i]
	if r.older == none {
		t.oldest = r.newer
	} else {
		t.rows[r.older].newer = r.newer
	}
	if r.newer == none {
		t.newest = r.older
	} else {
		t.rows[r.newer].older = r.older
	}
}

// bury remembers a tombstone. Graves of keys that came back are swept out when they are the majority.
func (t *table) bury(g grave) {
	if len(t.graves) > 2*t.dead+16 {
		kept := t.graves[:0]
		for _, old := range t.graves {
			if t.isGrave(old) {
				kept = append(kept, old)
			}
		}
		t.graves = kept
	}
	t.graves = append(t.graves, g)
}

func (t *table) isGrave(g grave) bool {
	e := t.rows[g.slot].entry
	return e != nil && e.Offset == g.offset
}

// oldestTombstone returns the tombstone with the lowest offset, nil when there is none.
func (t *table) oldestTombstone() *Entry {
	for len(t.graves) > 0 && !t.isGrave(t.graves[0]) {
		t.graves = t.graves[1:]
	}
	if len(t.graves) == 0 {
		t.graves = nil
		return nil
	}
	return t.rows[t.graves[0].slot].entry
}

// popTombstone forgets the tombstone that oldestTombstone returned.
func (t *table) popTombstone() {
	i := t.graves[0].slot
	t.graves = t.graves[1:]
	e := t.rows[i].entry
	t.unlink(i)
	t.rows[i].entry = nil
	delete(t.index, e.Key)
	t.free = append(t.free, i)
	t.dead--
	t.bytes -= int64(e.Size())
}
