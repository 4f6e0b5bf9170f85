package channel

import (
	"unique"

	"github.com/sluice-push/sluice/push"
)

// Policy holds the settings that the logs of one namespace share. It must not change while logs use it.
type Policy struct {
	Mode      push.Mode
	History   push.History
	Allowance Allowance
}

// Allowance is the minimum that a stream keeps when its history, by count and bytes, would keep less. It serves readers that are only a little
// late. Entries beyond the history are evicted, oldest first, while there are more than MaxEntries, or more than MinEntries that together have
// more than MaxBytes. The zero value keeps nothing beyond the history.
type Allowance struct {
	MinEntries, MaxEntries int
	MaxBytes               int64
}

// exceeds reports whether a stream of so many entries and bytes holds more than Allowance protects.
func (s Allowance) exceeds(entries int, bytes int64) bool {
	return entries > s.MaxEntries || entries > s.MinEntries && bytes > s.MaxBytes
}

// Log holds one generation of one channel: its kept entries, its head and its floor. Its methods must not be called concurrently, except that
// [Log.Read] and the other methods that change nothing may run at the same time.
type Log struct {
	policy *Policy
	epoch  unique.Handle[string]

	head          uint64 // the log knows all entries up to here
	floor         uint64 // a reader from here on misses nothing
	ordinal       uint64 // of the newest entry
	unrecoverable uint64 // all entries up to here were forgotten at once, or never known to this log

	stream *stream // stream mode
	table  *table  // table mode
	value  *Entry  // value mode: the row or its tombstone; nil before the first entry and after the tombstone was evicted

	kept *changes // nil: the log keeps no changes
}

// New returns an empty log with the head start.Offset and the given floor. For a new channel both are the same. If history is loaded, start is
// where the loading begins, and Loaded ends it.
func New(p *Policy, start push.Position, floor uint64) *Log {
	l := &Log{policy: p, epoch: unique.Make(start.Epoch), head: start.Offset, floor: floor, unrecoverable: floor}
	switch p.Mode {
	case push.Stream:
		l.stream = &stream{}
	case push.Table:
		l.table = newTable()
	case push.Value:
	}
	return l
}

// Head returns the offset up to which the log knows all entries. It only rises.
func (l *Log) Head() uint64 { return l.head }

// Floor returns the oldest offset from which a reader misses nothing. It only rises.
func (l *Log) Floor() uint64 { return l.floor }

// Epoch returns the epoch of all the log's offsets.
func (l *Log) Epoch() string { return l.epoch.Value() }

// Mode returns the log's mode.
func (l *Log) Mode() push.Mode { return l.policy.Mode }

// Len returns the number of kept entries, including tombstones.
func (l *Log) Len() int {
	switch {
	case l.stream != nil:
		return l.stream.len()
	case l.table != nil:
		return len(l.table.index)
	case l.value != nil:
		return 1
	}
	return 0
}

// empty reports whether a table has no live row.
func (l *Log) empty() bool {
	if l.table != nil {
		return l.table.live() == 0
	}
	return l.value == nil || l.value.Removed()
}

// Bytes returns the size of the kept entries, as push.Publication.Size counts, plus the replaced data and the computed differences that the log
// keeps for changes.
func (l *Log) Bytes() int64 {
	var n int64
	switch {
	case l.stream != nil:
		n = l.stream.bytes
	case l.table != nil:
		n = l.table.bytes
	case l.value != nil:
		n = int64(l.value.Size())
	}
	if l.kept != nil {
		n += l.kept.bytes + l.kept.made.Load()
	}
	return n
}

// Append adds a publication at its offset and returns its entry. It returns nil if the offset is not above the head: the publication was
// delivered twice, or was loaded before it arrived live. Entries that exceed the retention by count or bytes are evicted at once. The
// publication and the data that it refers to must not change afterwards.
func (l *Log) Append(p push.Publication) *Entry { return l.AppendRetagged(p, 0) }

// AppendRetagged is Append for a replica, which reads its source late and does not see every version of a row. The argument retag is the
// source's [Entry.Retag] of the publication. A replica that computed it from the versions that it saw would miss a change of the tags that was
// undone. A client that got the version in between from another node would then keep a stale row.
func (l *Log) AppendRetagged(p push.Publication, retag uint64) *Entry {
	if p.Offset <= l.head {
		return nil
	}
	if p.Op != push.Clear { // a reader cannot miss a clear
		l.ordinal++
	}
	e := &Entry{Publication: p, Ordinal: l.ordinal, After: max(l.newest(), l.floor), Retag: p.Offset}
	if l.kept != nil {
		l.keepChange(e)
	}
	l.head = p.Offset
	switch {
	case p.Op == push.Clear:
		l.reset(p.Offset)
	case l.stream != nil:
		if newest := l.stream.newest(); newest != nil {
			e.Prev = newest.Offset
		}
		l.stream.push(e)
		l.trim()
	case l.table != nil:
		l.table.put(e)
		l.trim()
	default:
		e.replace(l.value)
		l.value = e
	}
	if retag != 0 {
		e.Retag = retag
	}
	return e
}

// newest returns the offset of the newest entry, 0 if there is none. The offset of an evicted entry is not above the floor.
func (l *Log) newest() uint64 {
	switch {
	case l.stream != nil:
		if e := l.stream.newest(); e != nil {
			return e.Offset
		}
	case l.newestSlot() != none:
		return l.row(l.newestSlot()).Offset
	}
	return 0
}

// replace sets Prev and Retag of e. The argument old is the row of the same key, nil if there is none.
func (e *Entry) replace(old *Entry) {
	if old == nil || old.Removed() {
		return
	}
	e.Prev = old.Offset
	if sameTags(old.Tags, e.Tags) {
		e.Retag = old.Retag
	}
}

func sameTags(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// Advance tells the log that its channel has no further entries up to offset, while other channels in the same sequence had some.
func (l *Log) Advance(offset uint64) { l.head = max(l.head, offset) }

// Gap tells the log that entries up to and including offset may have been evicted at the source before this log saw them. A stream goes on from
// there, and readers below offset get a Lost of unknown size. The rows of a table may be stale after a gap: then Gap returns false, and
// the log must be loaded again.
func (l *Log) Gap(offset uint64) bool {
	if offset <= l.head {
		return true
	}
	if l.stream == nil {
		return false
	}
	l.ordinal++
	l.head = offset
	l.reset(offset)
	l.stream.gap = l.ordinal
	return true
}

// reset forgets all entries and raises the floor.
func (l *Log) reset(floor uint64) {
	l.floor, l.unrecoverable = floor, floor
	switch {
	case l.stream != nil:
		l.stream = &stream{gap: l.stream.gap}
	case l.table != nil:
		l.table = newTable()
	}
	l.value = nil
	if l.kept != nil {
		l.kept = newChanges()
	}
}

// Unrecoverable reports whether a reader at c misses entries for a reason other than its own slowness: the channel was cleared, there was a gap,
// or the entries were evicted before this log was loaded.
func (l *Log) Unrecoverable(c Cursor) bool {
	return c.known() < l.unrecoverable
}

// Loaded ends the loading of a log, after all entries that its source keeps were appended. The argument head is the source's head, and entries
// up to floor were evicted there. Whether readers below the floor were slow is unknown, so Unrecoverable reports true for them.
func (l *Log) Loaded(head, floor uint64) {
	l.Advance(head)
	l.RaiseFloor(floor)
	l.unrecoverable = l.floor
}

// RaiseFloor tells the log that the source has evicted entries up to floor, so that a reader below it may miss something. In stream mode the log
// evicts these entries too.
func (l *Log) RaiseFloor(floor uint64) {
	floor = min(floor, l.head)
	if floor <= l.floor {
		return
	}
	l.floor = floor
	if l.stream != nil {
		for e := l.stream.oldest(); e != nil && e.Offset <= floor; e = l.stream.oldest() {
			l.kept.drop(e.Offset)
			l.stream.pop()
		}
	}
}

// Expire evicts the entries that are older than the retention's age at the time now, in Unix milliseconds, and returns their number.
func (l *Log) Expire(now int64) int {
	age := l.policy.History.Age.Milliseconds()
	if age <= 0 {
		return 0
	}
	return l.evict(func(e *Entry) bool { return e.Time < now-age })
}

// Shrink evicts the oldest entries of a stream until at most bytes are kept, and returns their number. In the other modes it does nothing,
// because rows are never evicted.
func (l *Log) Shrink(bytes int64) int {
	if l.stream == nil {
		return 0
	}
	return l.evict(func(*Entry) bool { return l.stream.bytes > bytes })
}

// trim enforces the retention by count and bytes.
func (l *Log) trim() {
	h := l.policy.History
	l.evict(func(*Entry) bool {
		if l.stream == nil {
			return h.Size > 0 && l.table.dead > h.Size
		}
		entries, bytes := l.stream.len(), l.stream.bytes
		return (h.Size > 0 && entries > h.Size || h.Bytes > 0 && bytes > h.Bytes) && l.policy.Allowance.exceeds(entries, bytes)
	})
}

// evict drops stream entries or tombstones, oldest first, while test returns true. It raises the floor past them and returns their number.
func (l *Log) evict(test func(oldest *Entry) bool) int {
	n := 0
	for {
		var e *Entry
		switch {
		case l.stream != nil:
			e = l.stream.oldest()
		case l.table != nil:
			e = l.table.oldestTombstone()
		case l.value != nil && l.value.Removed():
			e = l.value
		}
		if e == nil || !test(e) {
			return n
		}
		switch {
		case l.stream != nil:
			l.kept.drop(e.Offset)
			l.stream.pop()
		case l.table != nil:
			l.table.popTombstone()
		default:
			l.value = nil
		}
		l.floor = max(l.floor, e.Offset)
		n++
	}
}

// Row returns the newest entry of a key, nil if there is none or it was removed. In value mode the key does not matter; in stream mode the
// result is nil.
func (l *Log) Row(key string) *Entry {
	e := l.value
	if l.table != nil {
		e = l.table.get(key)
	}
	if e == nil || e.Removed() {
		return nil
	}
	return e
}
