package channel

import (
	"unique"

	"github.com/sluice-push/sluice/push"
)

// Policy is what the logs of one namespace have in common. It must not be changed while logs use it.
type Policy struct {
	Mode    push.Mode
	History push.History
	Spare   Spare
}

// Spare is what a stream keeps in all where its history, by count and bytes, would be less: for readers that are only a little late. Of the
// entries beyond the history the oldest go as long as there are more than Entries, or more than Few that count for more than Bytes. The zero
// value keeps nothing beyond the history.
type Spare struct {
	Few, Entries int
	Bytes        int64
}

// exceeds reports whether so many entries, which count for so many bytes, are more than is spared.
func (s Spare) exceeds(entries int, bytes int64) bool {
	return entries > s.Entries || entries > s.Few && bytes > s.Bytes
}

// Log is one life of one channel: what is kept of it, and where its head and floor are. Its methods must not be called
// concurrently, except that [Log.Read] and the other methods that change nothing may run beside each other.
type Log struct {
	policy *Policy
	epoch  unique.Handle[string]

	head    uint64 // everything up to here is known to this log
	floor   uint64 // a reader from here on misses nothing
	ordinal uint64 // of the newest entry
	voided  uint64 // all up to here was forgotten at once, or never known to this log

	stream *stream // stream mode
	table  *table  // table mode
	value  *Entry  // value mode: the row, possibly its tombstone; nil before the first and after the tombstone was evicted

	kept *changes // nil: none are kept
}

// New returns an empty log that knows of everything up to start.Offset, and of what came after floor misses nothing. Both are the
// same for a channel that begins now; when history is loaded, start is where the loading begins, and Loaded ends it.
func New(p *Policy, start push.Position, floor uint64) *Log {
	l := &Log{policy: p, epoch: unique.Make(start.Epoch), head: start.Offset, floor: floor, voided: floor}
	switch p.Mode {
	case push.Stream:
		l.stream = &stream{}
	case push.Table:
		l.table = newTable()
	case push.Value:
	}
	return l
}

// Head returns the offset up to which the log knows everything. It only rises.
func (l *Log) Head() uint64 { return l.head }

// Floor returns the oldest offset from which a reader misses nothing. It only rises.
func (l *Log) Floor() uint64 { return l.floor }

// Epoch returns the epoch that all the log's offsets belong to.
func (l *Log) Epoch() string { return l.epoch.Value() }

// Mode returns the log's mode.
func (l *Log) Mode() push.Mode { return l.policy.Mode }

// Len returns the number of entries kept, tombstones included.
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

// Bytes returns what the entries kept count for, as push.Publication.Size has it, and the data that is kept of what they replaced and the differences that were made of it.
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

// Append adds a publication at its offset and returns its entry, or nil when the log knows of that offset already: a publication
// that is delivered twice, or that was loaded before it arrived live. What exceeds the retention by count or bytes is evicted at
// once. The publication and all it refers to must not change afterwards.
func (l *Log) Append(p push.Publication) *Entry { return l.AppendRetagged(p, 0) }

// AppendRetagged is Append for a replica, which reads its source late and does not see every version of a row: retag is
// the source's [Entry.Retag] of the publication. A replica that worked it out from the versions it saw would miss that the tags
// changed to and fro, and leave a ghost at a client that saw the version in between elsewhere.
func (l *Log) AppendRetagged(p push.Publication, retag uint64) *Entry {
	if p.Offset <= l.head {
		return nil
	}
	if p.Op != push.Clear { // a clear is nothing that a reader could miss
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

// newest returns the offset of the newest entry, 0 when there is none. One that was evicted is not above the floor.
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

// replace notes what e takes the place of: old is the row of the same key, nil if there is none.
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

// Advance tells the log that nothing else came up to offset: its channel was quiet while others in the same sequence moved on.
func (l *Log) Advance(offset uint64) { l.head = max(l.head, offset) }

// Gap tells the log that entries up to and including offset may have been evicted at the source before this log saw them. A stream
// goes on from there, and whoever had not read further is told of a loss of unknown size. The rows of a table can no longer be
// trusted: Gap reports false when the log has to be loaded again.
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

// reset forgets all entries and raises the floor to the head.
func (l *Log) reset(floor uint64) {
	l.floor, l.voided = floor, floor
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

// Voided reports whether a reader at c cannot be told everything for a reason that has nothing to do with how quick it is: the channel was
// cleared, there was a gap, or this log was loaded after it had happened.
func (l *Log) Voided(c Cursor) bool {
	return c.known() < l.voided
}

// Loaded tells a log to which all was appended that its source keeps how far the source is, and what lies at or below floor was evicted there.
// Of readers below it nobody knows whether they were slow.
func (l *Log) Loaded(head, floor uint64) {
	l.Advance(head)
	l.RaiseFloor(floor)
	l.voided = l.floor
}

// RaiseFloor says that what lies at or below floor was evicted at the source, so that this log can no longer promise it either. In
// stream mode the entries themselves go too.
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

// Expire evicts what is older than the retention allows at now, in Unix milliseconds, and returns how many entries went.
func (l *Log) Expire(now int64) int {
	age := l.policy.History.Age.Milliseconds()
	if age <= 0 {
		return 0
	}
	return l.evict(func(e *Entry) bool { return e.Time < now-age })
}

// Shrink evicts the oldest entries of a stream until at most bytes are kept, and returns how many went. Rows of tables are never
// given up: there it does nothing.
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
		return (h.Size > 0 && entries > h.Size || h.Bytes > 0 && bytes > h.Bytes) && l.policy.Spare.exceeds(entries, bytes)
	})
}

// evict drops stream entries or tombstones, oldest first, as long as test says so, and raises the floor past them.
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

// Row returns the newest entry of a key, nil when there is none or it was removed. In value mode the key makes no difference; in
// stream mode there are no rows.
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
