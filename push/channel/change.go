package channel

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
)

// Change is the difference between an entry and the entry of the same key that it replaced. It serves clients that keep rows by key and clients
// that keep only the newest entry of a stream or value channel. A difference is computed when it is first needed, and shared by all subscribers.
// All methods may be called concurrently, also while the log changes.
type Change struct {
	from, to []byte
	alone    int                                 // bytes that only the change refers to
	made     [push.Deltas]atomic.Pointer[[]byte] // by form; empty if no difference is shorter than the data

	counted [push.Deltas]atomic.Bool // made is counted in total, or the log has dropped the change
	total   *atomic.Int64            // the log's sum of made differences
}

// differs holds encoders, which are the working memory for differences.
var differs = sync.Pool{New: func() any { return new(delta.Encoder) }}

// Diff returns the difference in the given form, or nil if none is shorter than the data itself. The result is immutable.
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
		if !c.made[form-1].CompareAndSwap(nil, made) { // another goroutine was quicker
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

// changes holds the changes that a log keeps.
type changes struct {
	of    map[uint64]*Change // by the offset of the entry
	bytes int64              // of old data that only a change refers to; a stream still has it in the previous entry
	made  *atomic.Int64      // bytes of the differences that were computed
}

func newChanges() *changes { return &changes{of: map[uint64]*Change{}, made: new(atomic.Int64)} }

func (c *changes) drop(offset uint64) {
	if c == nil {
		return
	}
	if old := c.of[offset]; old != nil {
		c.bytes -= int64(old.alone)
		for form := range old.made { // differences computed later are not counted
			if !old.counted[form].CompareAndSwap(false, true) {
				c.made.Add(-int64(len(*old.made[form].Load())))
			}
		}
		delete(c.of, offset)
	}
}

// KeepChanges sets whether the log remembers, for each entry appended from now on, the data that the entry replaced. The log keeps that data as
// long as the entry. It takes as much memory again as the live rows of a table, and little memory in a stream. With keep false, the log forgets
// all changes.
func (l *Log) KeepChanges(keep bool) {
	switch {
	case !keep:
		l.kept = nil
	case l.kept == nil:
		l.kept = newChanges()
	}
}

// Change returns the change of an entry. The result is nil if the entry replaced nothing or the log keeps no change of it.
func (l *Log) Change(e *Entry) *Change {
	if l.kept == nil {
		return nil
	}
	return l.kept.of[e.Offset]
}

// keepChange stores the change of an entry that is about to be appended.
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

// replacedBy returns the entry that e will replace.
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
