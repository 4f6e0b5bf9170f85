package hub

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// scan has the newest entries of one topic, and the frames made of them, which the topic's subscribers share. It belongs to a batch. Several
// goroutines may use it.
type scan struct {
	topic *topic

	// set by begin
	log        *channel.Log
	generation uint32
	epoch      string
	entries    []*channel.Entry
	changes    []*channel.Change // of the entries; empty when no subscriber takes differences
	read       bool              // the entries are not enough: each subscriber has to read the log

	formats atomic.Pointer[encoded] // list of the wire formats encoded so far; changes under mu

	mu         sync.Mutex         // held while frames are encoded; guards spare, deliveries and encoded.single
	spare      *encoded           // list of memory from earlier scans
	deliveries []channel.Delivery // memory of encode
}

// encoded holds the frames of a scan in one wire format.
type encoded struct {
	encoder Encoder
	to      Address
	all     []sharedFrame // frames of all entries, for subscriptions with a nil view whose cursors are right before the first
	single  []entryFrames // by entry, for other subscriptions; guarded by scan.mu
	next    *encoded
}

// sharedFrame is a frame of several entries.
type sharedFrame struct {
	frame    Frame
	from, to int // range of entries in the frame
}

// entryFrames are the frames of one entry: in full, as a removal, and as a difference. Each is nil until a subscription needs it.
type entryFrames struct{ put, gone, diff []byte }

// begin takes the recent entries of a topic, and adds the topic's subscriptions to the recipients. It reports whether there is anything to serve.
func (sc *scan) begin(t *topic, r *fanout) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	sc.topic, sc.entries = t, append(sc.entries[:0], t.recent...)
	if t.deltas != nil {
		sc.changes = append(sc.changes[:0], t.deltas.recent...)
	}
	sc.read = t.unrecorded || t.loading != nil || t.ended.Load() != nil
	t.forgetRecentLocked()
	t.unrecorded = false
	if !sc.read && len(sc.entries) == 0 {
		return false
	}
	if t.loading == nil {
		sc.log, sc.generation, sc.epoch = t.log, t.generation.Load(), t.log.Epoch()
	}
	for _, e := range sc.entries {
		sc.read = sc.read || e.Op == push.Clear
	}
	r.recipients = slices.Grow(r.recipients, len(t.subs))
	for _, sub := range t.subs {
		r.recipients = append(r.recipients, recipient{sub: sub, scan: int32(len(r.scans) - 1), next: none}) //nolint:gosec // far fewer
	}
	return true
}

// end empties the scan and keeps its memory.
func (sc *scan) end() {
	clear(sc.entries)
	clear(sc.changes)
	sc.topic, sc.log, sc.epoch, sc.entries, sc.changes = nil, nil, "", sc.entries[:0], sc.changes[:0]
	for f := sc.formats.Swap(nil); f != nil; {
		next := f.next
		clear(f.all)
		clear(f.single)
		*f = encoded{all: f.all[:0], single: f.single[:0], next: sc.spare}
		sc.spare = f
		f = next
	}
}

// encoded returns the frames in a subscription's wire format. There are few formats, so they are in a list.
func (sc *scan) encoded(sub *Subscription) *encoded {
	e, to := sub.session.encoder, sub.address()
	for f := sc.formats.Load(); f != nil; f = f.next {
		if f.encoder == e && f.to == to {
			return f
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	first := sc.formats.Load()
	for f := first; f != nil; f = f.next {
		if f.encoder == e && f.to == to {
			return f
		}
	}
	f := sc.spare
	if f == nil {
		f = &encoded{}
	} else {
		sc.spare = f.next
	}
	f.encoder, f.to, f.next = e, to, first
	sc.encode(f)
	sc.formats.Store(f)
	return f
}

// encode makes the frames that have all entries. The lock is held.
func (sc *scan) encode(f *encoded) {
	deliveries := sc.deliveries[:0]
	for i, e := range sc.entries {
		d := channel.Delivery{Entry: e, Offset: e.Offset, Change: sc.change(f, i)}
		if e.Removed() {
			d.Kind = channel.Gone
		}
		deliveries = append(deliveries, d)
	}
	for from := 0; from < len(deliveries); {
		to := from + together(f.encoder, sc.topic.name, deliveries[from:])
		f.all = append(f.all, sharedFrame{frameOf(f.encoder, f.to, sc.epoch, deliveries[from:to]), from, to})
		from = to
	}
	clear(deliveries)
	sc.deliveries = deliveries
}

// change returns the change of entry i from which a difference in the format is made. It returns nil if the entry goes in full.
func (sc *scan) change(f *encoded, i int) *channel.Change {
	if f.to.Delta == push.NoDelta || i >= len(sc.changes) || sc.changes[i].Diff(f.to.Delta) == nil {
		return nil
	}
	return sc.changes[i]
}

// frame returns the bytes of a frame that has only the delivery d, of entry i. Subscriptions share the bytes.
func (sc *scan) frame(f *encoded, i int, d channel.Delivery) []byte {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if len(f.single) == 0 {
		f.single = append(f.single, make([]entryFrames, len(sc.entries))...)
	}
	b := &f.single[i].put
	switch {
	case d.Kind == channel.Gone:
		b = &f.single[i].gone
	case d.Change != nil:
		b = &f.single[i].diff
	}
	if *b == nil {
		*b = frameOf(f.encoder, f.to, sc.epoch, []channel.Delivery{d}).Bytes
	}
	return *b
}

// serve adds to out the entries that a subscription has not got yet. It reports false if the subscription has to read the log.
func (sc *scan) serve(sub *Subscription, out *sessionWrite) bool {
	switch {
	case sub.isRemoved():
		return true
	case sc.read || sub.generation != sc.generation || sub.endReason.Load() != nil:
		return false
	case sub.cursor.Offset() >= sc.entries[len(sc.entries)-1].Offset:
		return true // a flush has served it since the scan began
	case sc.isShared(sub) && sc.serveAll(sub, out):
		return true
	}
	return sc.serveSome(sub, out)
}

// isShared reports whether a subscription may get all entries in encoded.all, as most subscriptions do. advance decides whether it can.
func (sc *scan) isShared(sub *Subscription) bool {
	return !sc.read && sub.view == nil && sub.generation == sc.generation && sub.endReason.Load() == nil && sub.cursor.Offset() < sc.entries[0].Offset
}

// serveAll serves a subscription for which isShared is true with shared frames, if its cursor can advance over them.
func (sc *scan) serveAll(sub *Subscription, out *sessionWrite) bool {
	f, end, before := sc.encoded(sub), sub.cursor, len(out.frames)
	for i := range f.all {
		next, ok := sc.advance(f, &f.all[i], end)
		if !ok {
			out.truncate(before)
			return false
		}
		end = next
		out.add(f.all[i].frame, end)
	}
	out.end(sub, end, sc.entries[len(sc.entries)-1].Ordinal)
	return true
}

// advance returns the cursor after a shared frame. ok is false if a subscription at the given cursor must not get that frame.
func (sc *scan) advance(f *encoded, s *sharedFrame, at channel.Cursor) (end channel.Cursor, ok bool) {
	for j, e := range sc.entries[s.from:s.to] {
		d, ok := sc.log.ReadNext(at, nil, e)
		if !ok || !d.Delta && sc.change(f, s.from+j) != nil {
			return at, false
		}
		at = d.Next
	}
	return at, true
}

// serveSome serves a subscription entry by entry: a flush has served it since the scan began, its view leaves out entries, or it cannot take
// all differences.
func (sc *scan) serveSome(sub *Subscription, out *sessionWrite) bool {
	f, end, epoch := sc.encoded(sub), sub.cursor, sub.view.Epoch(sc.epoch)
	before := len(out.frames)
	for i, e := range sc.entries {
		if e.Offset <= end.Offset() {
			continue
		}
		d, ok := sc.log.ReadNext(end, sub.view, e)
		if !ok {
			out.truncate(before)
			return false
		}
		end = d.Next
		if d.Delta {
			d.Change = sc.change(f, i)
		}
		if d.Kind != channel.Skip {
			one := Frame{Bytes: sc.frame(f, i, d), Channel: f.to.Channel, Publications: 1, accepted: e.Time}
			if !f.to.IsJoins {
				one.At = push.Position{Epoch: epoch, Offset: d.Offset}
			}
			out.add(one, end)
		}
	}
	out.end(sub, end, sc.entries[len(sc.entries)-1].Ordinal)
	return true
}
