package channel

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// Change is an entry as what became of the one it replaced, of the same key: so it makes no difference whether a client keeps what it has by
// key or has only the newest of a stream or value channel. The differences are made when they are first asked for, once for all who ask:
// its methods may be called concurrently, also while the log changes.
type Change struct {
	from, to []byte
	alone    int                                 // bytes that are kept for the change only
	made     [push.Deltas]atomic.Pointer[[]byte] // by form; empty: none that is shorter than the data

	counted [push.Deltas]atomic.Bool // made is in total, or the log does not keep the change any more
	total   *atomic.Int64            // of the log
}

// differs holds the working memory for differences.
var differs = sync.Pool{New: func() any { return new(delta.Encoder) }}

// Diff returns the difference in a form, nil when there is none that is shorter than the data itself. It is immutable.
func (c *Change) Diff(form push.Delta) []byte {
	if c == nil || form == push.NoDelta {
		return nil
	}
	made := c.made[form-1].Load()
	if made == nil {
		made = new([]byte)
		if diff, ok := c.diff(form); ok && len(diff) < len(c.to) {
			*made = diff
		}
		if !c.made[form-1].CompareAndSwap(nil, made) { // others were quicker
			return *c.made[form-1].Load()
		}
		if c.total != nil && c.counted[form-1].CompareAndSwap(false, true) {
			c.total.Add(int64(len(*made)))
		}
	}
	return *made
}

func (c *Change) diff(form push.Delta) (diff []byte, ok bool) {
	e := differs.Get().(*delta.Encoder)
	defer differs.Put(e)
	if form == push.Merge {
		return e.AppendMergePatch(nil, c.from, c.to)
	}
	return e.AppendFossil(nil, c.from, c.to), true
}

// changes are those that a log keeps.
type changes struct {
	of    map[uint64]*Change // by the offset of the entry
	bytes int64              // of data that nobody else has: a stream has it in the entry before
	made  *atomic.Int64      // bytes of the differences that were made
}

func newChanges() *changes { return &changes{of: map[uint64]*Change{}, made: new(atomic.Int64)} }

func (c *changes) drop(offset uint64) {
	if c == nil {
		return
	}
	if old := c.of[offset]; old != nil {
		c.bytes -= int64(old.alone)
		for form := range old.made { // what is made from now on is not kept here
			if !old.counted[form].CompareAndSwap(false, true) {
				c.made.Add(-int64(len(*old.made[form].Load())))
			}
		}
		delete(c.of, offset)
	}
}

// KeepChanges says whether the log keeps, of each entry that is appended from now on, what it replaced: for as long as it keeps the entry.
// That takes as much memory again as the live rows of a table, and little in a stream. With keep false all changes are forgotten.
func (l *Log) KeepChanges(keep bool) {
	switch {
	case !keep:
		l.kept = nil
	case l.kept == nil:
		l.kept = newChanges()
	}
}

// Change returns what is kept of an entry's change: nil when the entry replaced nothing, or nothing is kept of it.
func (l *Log) Change(e *Entry) *Change {
	if l.kept == nil {
		return nil
	}
	return l.kept.of[e.Offset]
}

// keepChange keeps the change of an entry that is about to be appended.
func (l *Log) keepChange(e *Entry) {
	old := l.replacedBy(e)
	if old == nil {
		return
	}
	if l.stream == nil {
		l.kept.drop(old.Offset)
	}
	if e.Op == push.Set && !old.Removed() && e.Key == old.Key && len(old.Data) > 0 && len(e.Data) > 0 {
		c := &Change{from: old.Data, to: e.Data, total: l.kept.made}
		if l.stream == nil {
			c.alone = len(c.from)
		}
		l.kept.of[e.Offset] = c
		l.kept.bytes += int64(c.alone)
	}
}

// replacedBy returns the entry in whose place an entry will be.
func (l *Log) replacedBy(e *Entry) *Entry {
	switch {
	case l.stream != nil:
		return l.stream.newest()
	case l.table != nil:
		return l.table.get(e.Key)
	default:
		return l.value
	}
}
