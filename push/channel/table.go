package channel

// table holds the newest entry of each key. A row keeps its slot for as long as it exists, so that an interrupted walk over the slots can
// continue and misses none. A list of the rows in offset order serves readers that keep up.
type table struct {
	rows       []row
	index      map[string]int32 // key → slot, tombstones included
	free       []int32          // slots without a row
	oldest     int32            // the ends of the list, none if it is empty
	newest     int32
	tombstones []tombstone // references to tombstones, oldest first; a reference is stale if its key has a newer entry
	dead       int         // the number of tombstones
	bytes      int64
}

type row struct {
	entry        *Entry // nil: the slot is free
	older, newer int32  // neighbours in offset order
}

type tombstone struct {
	slot   int32
	offset uint64
}

const none int32 = -1

func newTable() *table {
	return &table{index: map[string]int32{}, oldest: none, newest: none}
}

// live returns the number of live rows.
func (t *table) live() int { return len(t.index) - t.dead }

// removedSince reports whether more than most rows have been removed after offset and have not been added again.
func (t *table) removedSince(offset uint64, most int) bool {
	if t.dead <= most {
		return false
	}
	for i := len(t.tombstones) - 1; i >= 0 && t.tombstones[i].offset > offset; i-- {
		if t.isTombstone(t.tombstones[i]) {
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
		e.Key = old.Key // all versions of the row share one string
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
		t.addTombstone(tombstone{i, e.Offset})
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

// link puts row i at the newest end of the list.
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

// addTombstone stores a reference to a tombstone. It drops stale references when they are the majority.
func (t *table) addTombstone(g tombstone) {
	if len(t.tombstones) > 2*t.dead+16 {
		kept := t.tombstones[:0]
		for _, old := range t.tombstones {
			if t.isTombstone(old) {
				kept = append(kept, old)
			}
		}
		t.tombstones = kept
	}
	t.tombstones = append(t.tombstones, g)
}

func (t *table) isTombstone(g tombstone) bool {
	e := t.rows[g.slot].entry
	return e != nil && e.Offset == g.offset
}

// oldestTombstone returns the tombstone with the lowest offset, nil if there is none.
func (t *table) oldestTombstone() *Entry {
	for len(t.tombstones) > 0 && !t.isTombstone(t.tombstones[0]) {
		t.tombstones = t.tombstones[1:]
	}
	if len(t.tombstones) == 0 {
		t.tombstones = nil
		return nil
	}
	return t.rows[t.tombstones[0].slot].entry
}

// popTombstone forgets the tombstone that oldestTombstone returned.
func (t *table) popTombstone() {
	i := t.tombstones[0].slot
	t.tombstones = t.tombstones[1:]
	e := t.rows[i].entry
	t.unlink(i)
	t.rows[i].entry = nil
	delete(t.index, e.Key)
	t.free = append(t.free, i)
	t.dead--
	t.bytes -= int64(e.Size())
}
