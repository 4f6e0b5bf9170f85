package hub

import (
	"slices"

	"github.com/sluice-push/sluice/push/channel"
)

// # Volleys
//
// Of thousands of sessions each is cold when its turn comes, and after each write so is the code, because the kernel has run since. So the
// sessions that get one frame which they share with others, as most do, are served by volleys: the locks of some dozens are taken, then
// their carriers are offered the frame together, then the cursors are moved and the locks let go of. The others follow one by one.
//
// A volley waits for no lock, and so cannot be part of a deadlock. Who wants one that it holds waits for some hundred microseconds.

// Offer is one frame of [Volleyer.TryWriteAll] for one carrier.
type Offer struct {
	Carrier Carrier
	Frame   *Frame
	Taken   bool // set: whether TryWrite of the carrier would have returned 1
}

// Volleyer may be a [Carrier] too, one that is better served together with others.
type Volleyer interface {
	// TryWriteAll is TryWrite of one frame for each of several carriers, of which it is one, and all of which are Volleyers, though not
	// necessarily of the same kind. The slice is borrowed until it returns. The locks of all their sessions are held.
	TryWriteAll(offers []Offer)
}

// volley is what a goroutine needs for one. It is empty between two.
type volley struct {
	tickets []ticket
	offers  []Offer // for the carriers of these
	others  []int32 // the first items of sessions that are served by themselves
}

// ticket is what becomes of a subscription when its frame is taken.
type ticket struct {
	part
	frame *Frame
}

// serveStretch serves the sessions from one up to another.
func (r *round) serveStretch(from, to int, out *batch) {
	v := &out.volley
	for i := from; i < to; i++ {
		r.expect(i + far)
		if first := r.start(i); !r.enlist(first, v) {
			v.others = append(v.others, first)
		}
	}
	v.fire(&out.counts)
	for _, first := range v.others {
		r.items[first].sub.session.serve(r, first, out)
	}
	v.others = v.others[:0]
}

// enlist locks the session of an item for a volley, and reports false if it is to be served by itself.
func (r *round) enlist(first int32, v *volley) bool {
	it := &r.items[first]
	s := it.sub.session
	if it.next != none || !s.mu.TryLock() {
		return false
	}
	ok := !s.closed && !s.blocked && s.paced == nil && r.passes[it.pass].enlist(it.sub, v)
	if !ok {
		s.unlock()
	}
	return ok
}

// enlist adds a subscription that gets all entries of the pass in one frame.
func (p *pass) enlist(sub *Subscription, v *volley) bool {
	if _, ok := sub.session.carrier.(Volleyer); !ok || !p.isShared(sub) {
		return false
	}
	f := p.format(sub)
	end, ok := p.follow(f, &f.all[0], sub.cursor)
	if !ok || len(f.all) > 1 {
		return false
	}
	progress := channel.Progress{Ordinal: p.entries[len(p.entries)-1].Ordinal}
	t := ticket{part{sub: sub, to: 1, end: end, progress: progress}, &f.all[0].frame}
	v.tickets = append(v.tickets, t)
	v.offers = append(v.offers, Offer{Carrier: sub.session.carrier, Frame: t.frame})
	return true
}

// fire makes the offers, moves the cursors of those who took them, and lets go of the locks.
func (v *volley) fire(counts *deliveryCounts) {
	if len(v.offers) == 0 {
		return
	}
	v.offers[0].Carrier.(Volleyer).TryWriteAll(v.offers) //nolint:forcetypeassert // they all are
	for i := range v.tickets {
		t := &v.tickets[i]
		s := t.sub.session
		if v.offers[i].Taken {
			t.sub.cursor = t.end
			counts.count(&t.part, []Frame{*t.frame}, true)
		}
		if s.blockLocked(!v.offers[i].Taken); s.blocked {
			s.next = slices.Index(s.subs, t.sub)
		}
		s.unlock()
	}
	clear(v.tickets)
	clear(v.offers)
	v.tickets, v.offers = v.tickets[:0], v.offers[:0]
}
