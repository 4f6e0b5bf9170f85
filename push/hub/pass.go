package hub

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// pass is what the subscribers of one topic are served with in a round: its newest entries, and the frames made of them, which all
// share. It belongs to a round; several goroutines may be at it.
type pass struct {
	topic *topic

	// set by begin
	log     *channel.Log
	life    uint32
	epoch   string
	entries []*channel.Entry
	changes []*channel.Change // of the entries; empty when nobody takes differences
	read    bool              // the entries are not enough: everybody has to read the log

	formats atomic.Pointer[format] // those made so far, in a list

	mu         sync.Mutex         // held while formats and frames are made; guards what follows
	spare      *format            // formats of earlier passes, whose memory is used again
	deliveries []channel.Delivery // memory of encode
}

// format holds the frames of a pass in one wire format.
type format struct {
	encoder Encoder
	to      Address
	all     []shared      // all entries, for who has a nil view and is right behind the first
	single  []entryFrames // by entry, for the others; guarded by pass.mu
	next    *format
}

// shared is a frame of several entries.
type shared struct {
	frame    Frame
	from, to int // which entries it holds
}

type entryFrames struct{ put, gone, diff []byte }

// begin takes what is new in a topic for its subscribers, and adds these to the items. It reports whether there is anything to serve.
func (p *pass) begin(t *topic, r *round) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.topic, p.entries = t, append(p.entries[:0], t.recent...)
	if t.deltas != nil {
		p.changes = append(p.changes[:0], t.deltas.recent...)
	}
	p.read = t.unrecorded || t.loading != nil || t.ended.Load() != nil
	t.forgetRecentLocked()
	t.unrecorded = false
	if !p.read && len(p.entries) == 0 {
		return false
	}
	if t.loading == nil {
		p.log, p.life, p.epoch = t.log, t.life.Load(), t.log.Epoch()
	}
	for _, e := range p.entries {
		p.read = p.read || e.Op == push.Clear
	}
	r.items = slices.Grow(r.items, len(t.subs))
	for _, sub := range t.subs {
		r.items = append(r.items, item{sub: sub, pass: int32(len(r.passes) - 1), next: none}) //nolint:gosec // far fewer
	}
	return true
}

// end forgets all but the memory.
func (p *pass) end() {
	clear(p.entries)
	clear(p.changes)
	p.topic, p.log, p.epoch, p.entries, p.changes = nil, nil, "", p.entries[:0], p.changes[:0]
	for f := p.formats.Swap(nil); f != nil; {
		next := f.next
		clear(f.all)
		clear(f.single)
		*f = format{all: f.all[:0], single: f.single[:0], next: p.spare}
		p.spare = f
		f = next
	}
}

// format returns the frames of a subscription's wire format, of which there are few.
func (p *pass) format(sub *Subscription) *format {
	e, to := sub.session.encoder, sub.address()
	for f := p.formats.Load(); f != nil; f = f.next {
		if f.encoder == e && f.to == to {
			return f
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.formats.Load()
	for f := first; f != nil; f = f.next {
		if f.encoder == e && f.to == to {
			return f
		}
	}
	f := p.spare
	if f == nil {
		f = &format{}
	} else {
		p.spare = f.next
	}
	f.encoder, f.to, f.next = e, to, first
	p.encode(f)
	p.formats.Store(f)
	return f
}

// encode makes the frames of all entries.
func (p *pass) encode(f *format) {
	deliveries := p.deliveries[:0]
	for i, e := range p.entries {
		d := channel.Delivery{Entry: e, Offset: e.Offset, Change: p.change(f, i)}
		if e.Removed() {
			d.Kind = channel.Gone
		}
		deliveries = append(deliveries, d)
	}
	for from := 0; from < len(deliveries); {
		to := from + together(f.encoder, p.topic.name, deliveries[from:])
		f.all = append(f.all, shared{frameOf(f.encoder, f.to, p.epoch, deliveries[from:to]), from, to})
		from = to
	}
	clear(deliveries)
	p.deliveries = deliveries
}

// change returns what the difference of entry i is made of, nil where it goes in full to clients of a format.
func (p *pass) change(f *format, i int) *channel.Change {
	if f.to.Delta == push.NoDelta || i >= len(p.changes) || p.changes[i].Diff(f.to.Delta) == nil {
		return nil
	}
	return p.changes[i]
}

// frame returns the shared bytes of a delivery of entry i alone.
func (p *pass) frame(f *format, i int, d channel.Delivery) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(f.single) == 0 {
		f.single = append(f.single, make([]entryFrames, len(p.entries))...)
	}
	b := &f.single[i].put
	switch {
	case d.Kind == channel.Gone:
		b = &f.single[i].gone
	case d.Change != nil:
		b = &f.single[i].diff
	}
	if *b == nil {
		*b = frameOf(f.encoder, f.to, p.epoch, []channel.Delivery{d}).Bytes
	}
	return *b
}

// serve adds to out what a subscription is to get. It reports false when that has to be read from the log.
func (p *pass) serve(sub *Subscription, out *batch) bool {
	switch {
	case sub.isOver():
		return true
	case p.read || sub.life != p.life || sub.ends.Load() != nil:
		return false
	case sub.cursor.Offset() >= p.entries[len(p.entries)-1].Offset:
		return true // it was quicker than the pass, and may be further by now
	case p.isShared(sub) && p.serveAll(sub, out):
		return true
	}
	return p.serveSome(sub, out)
}

// isShared reports whether a subscription gets all entries in the frames that all share, as most do, if it can follow them.
func (p *pass) isShared(sub *Subscription) bool {
	return !p.read && sub.view == nil && sub.life == p.life && sub.ends.Load() == nil && sub.cursor.Offset() < p.entries[0].Offset
}

// serveAll is for subscriptions of which that is so.
func (p *pass) serveAll(sub *Subscription, out *batch) bool {
	f, end, before := p.format(sub), sub.cursor, len(out.frames)
	for i := range f.all {
		next, ok := p.follow(f, &f.all[i], end)
		if !ok {
			out.cut(before)
			return false
		}
		end = next
		out.add(f.all[i].frame, end)
	}
	out.end(sub, end, p.entries[len(p.entries)-1].Ordinal)
	return true
}

// follow returns where a cursor is behind a shared frame, and false where somebody at it cannot make use of that.
func (p *pass) follow(f *format, s *shared, at channel.Cursor) (end channel.Cursor, ok bool) {
	for j, e := range p.entries[s.from:s.to] {
		d, ok := p.log.Follow(at, nil, e)
		if !ok || !d.Delta && p.change(f, s.from+j) != nil {
			return at, false
		}
		at = d.Next
	}
	return at, true
}

// serveSome is for those that were quicker than the pass, do not see everything, or cannot take all differences.
func (p *pass) serveSome(sub *Subscription, out *batch) bool {
	f, end, epoch := p.format(sub), sub.cursor, sub.view.Epoch(p.epoch)
	before := len(out.frames)
	for i, e := range p.entries {
		if e.Offset <= end.Offset() {
			continue
		}
		d, ok := p.log.Follow(end, sub.view, e)
		if !ok {
			out.cut(before)
			return false
		}
		end = d.Next
		if d.Delta {
			d.Change = p.change(f, i)
		}
		if d.Kind != channel.Skip {
			at := push.Position{Epoch: epoch, Offset: d.Offset}
			out.add(Frame{Bytes: p.frame(f, i, d), Channel: p.topic.name, At: at, Publications: 1, accepted: e.Time}, end)
		}
	}
	out.end(sub, end, p.entries[len(p.entries)-1].Ordinal)
	return true
}
