package hub

import (
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

const (
	// turnEntries and turnBytes are how much of one subscription is read at a time.
	turnEntries = 64
	turnBytes   = 32 << 10
	// turns is how often a subscription is read in one flush before the session's others have theirs.
	turns = 4
	// rounds is how many flushes in a row are done by one who came for something else; what is left then is work for the workers.
	rounds = 8
)

// # Why no wake-up is lost
//
// Whoever has something for a session first makes it visible (a publication in the log, the end of a subscription, the carrier's room),
// then sets the dirty bit, then tries the lock. The holder of the lock clears the bit before it looks, and after it has let go of the
// lock looks at the bit again.
//
// So when the try succeeds, the bit is seen to on the spot. When it fails, somebody holds the lock, or is just about to get it
// (TryLock may also fail against one who is taking it), and lets go of it after the bit was set: that holder finds the bit, or
// somebody else found it since, cleared it and looked, and what it looked at was visible by then. The one who clears the bit and then
// cannot finish (the turns of a subscription are used up, or its rounds) sets it again, or leaves it set and queues the session.
//
// A session that is blocked passes the bit over: all that is meant for it is found by reading the logs from the cursors, which
// happens when the carrier has room again. That is said by Flush, through a bit of its own: a carrier that opens between its refusal and
// the note that it refused is not missed, because the refused flush ends with a look at the dirty bit that Flush has set after the
// writable one. At worst the writable bit is left over from an opening that nobody was blocked by, and costs one more refusal.

// Flush serves what the session has not got yet. The carrier's owner calls it when the carrier can take more.
func (s *Session) Flush() {
	s.writable.Store(true)
	s.wake()
}

// wake has the session flushed: by the caller, or by whoever holds the lock just now.
func (s *Session) wake() {
	s.dirty.Store(true)
	if s.mu.TryLock() {
		s.unlock()
	}
}

// unlock lets go of the session's lock, after whatever came up while it was held was seen to. A session on busy channels may be dirty
// again each time: after some rounds a worker goes on with it, in turn with the others, so that nobody is captured by it.
func (s *Session) unlock() {
	for left := rounds; ; left-- {
		if s.dirty.Load() {
			if left == 0 {
				s.mu.Unlock()
				s.hub.workers.later(s)
				return
			}
			s.dirty.Store(false)
			s.flushLocked()
		}
		s.mu.Unlock()
		if !s.dirty.Load() || !s.mu.TryLock() {
			return
		}
	}
}

// goOn continues a session that was left dirty.
func (s *Session) goOn() {
	s.queued.Store(false)
	if s.mu.TryLock() {
		s.unlock()
	}
}

// offer serves a subscription in a pass: straight from the shared frames where the cursor is right behind, otherwise by a flush.
func (s *Session) offer(sub *Subscription, p *pass, sc *scratch) {
	if !s.mu.TryLock() {
		s.dirty.Store(true)
		if !s.mu.TryLock() {
			return // whoever holds the lock looks at the bit before and after letting go
		}
	}
	if !s.straightLocked(sub, p, sc) {
		s.dirty.Store(true)
	}
	s.unlock()
}

// straightLocked reports false when the subscription has to be read from its log.
func (s *Session) straightLocked(sub *Subscription, p *pass, sc *scratch) bool {
	switch {
	case s.closed || sub.gone.Load():
		return true
	case s.blocked:
		return false
	case !p.whole || sub.life != p.life || sub.ends.Load() != nil:
		return false
	}
	frames, deliveries := sc.frames[:0], sc.deliveries[:0]
	end, epoch := sub.cursor, sub.view.Epoch(p.epoch)
	for i, e := range p.entries {
		if e.Offset <= end.Offset() {
			continue // it was quicker than the pass
		}
		d, ok := p.log.Follow(end, sub.view, e)
		if !ok {
			return false
		}
		end = d.Next
		if d.Kind != channel.Skip {
			deliveries = append(deliveries, d) // first: a pointer to d itself would cost an allocation each
			b := p.frame(s.encoder, i, &deliveries[len(deliveries)-1])
			frames = append(frames, Frame{Bytes: b, Channel: p.name, At: push.Position{Epoch: epoch, Offset: d.Offset}})
		}
	}
	sc.frames, sc.deliveries = frames, deliveries
	return s.writeLocked(sub, frames, deliveries, end)
}

// writeLocked offers frames to the carrier and moves the cursor as far as they were taken. It reports whether all were.
func (s *Session) writeLocked(sub *Subscription, frames []Frame, deliveries []channel.Delivery, end channel.Cursor) bool {
	taken := 0
	if len(frames) > 0 {
		taken = s.carrier.TryWrite(frames)
		s.hub.stats.delivered.Add(uint64(taken)) //nolint:gosec // not negative
	}
	sub.cursor = channel.Commit(sub.cursor, deliveries, end, taken)
	s.blocked = taken < len(frames)
	return !s.blocked
}

// flushLocked serves all subscriptions that have something to get, in turn, until the carrier takes no more.
func (s *Session) flushLocked() {
	if s.closed {
		return
	}
	if s.blocked && !s.writable.Swap(false) {
		return
	}
	s.blocked = false
	sc := scratches.Get().(*scratch)
	defer sc.release()
	for left := len(s.subs); left > 0 && !s.blocked && !s.closed; left-- {
		if s.next >= len(s.subs) {
			s.next = 0
		}
		sub := s.subs[s.next]
		s.next++
		s.serveLocked(sub, sc)
	}
}

// serveLocked serves one subscription from its log.
func (s *Session) serveLocked(sub *Subscription, sc *scratch) {
	if u := sub.ended(); u != nil {
		s.endLocked(sub, *u)
		return
	}
	for range turns {
		if t := sub.topic(); t.newest.Load() <= sub.cursor.Offset() && !sub.cursor.Sweeping() && t.life.Load() == sub.life {
			return
		}
		status, ok := s.readLocked(sub, sc)
		if !ok || status == channel.UpToDate {
			return
		}
	}
	s.dirty.Store(true)
}

// readLocked reads a subscription's next entries and writes them. ok is false when there is nothing more to be done for now.
func (s *Session) readLocked(sub *Subscription, sc *scratch) (status channel.Status, ok bool) {
	t := sub.topic()
	t.mu.Lock()
	if t.loading != nil {
		t.mu.Unlock()
		return 0, false // it is kicked when it is
	}
	if life := t.life.Load(); sub.life != life {
		sub.cursor, sub.life = t.log.Rebase(sub.cursor), life
	}
	epoch := sub.view.Epoch(t.log.Epoch())
	budget := channel.Budget{Entries: turnEntries, Bytes: turnBytes}
	deliveries, end, status := t.log.Read(sub.cursor, sub.view, budget, sc.deliveries[:0])
	t.mu.Unlock()

	sc.deliveries = deliveries
	frames := sc.frames[:0]
	for i := range deliveries {
		d := &deliveries[i]
		if d.Kind == channel.Clear || d.Kind == channel.Lost {
			s.endLocked(sub, push.UnsubscribeInsufficientState)
			return 0, false
		}
		f := Frame{Bytes: s.encoder.AppendPublication(nil, t.name, d), Channel: t.name}
		if d.Offset != 0 {
			f.At = push.Position{Epoch: epoch, Offset: d.Offset}
		}
		frames = append(frames, f)
	}
	sc.frames = frames
	if status == channel.TooSlow {
		s.endLocked(sub, push.UnsubscribeInsufficientState)
		return 0, false
	}
	return status, s.writeLocked(sub, frames, deliveries, end)
}

// ended returns why the server ends the subscription, nil if it does not.
func (sub *Subscription) ended() *push.Unsubscribe {
	if u := sub.ends.Load(); u != nil {
		return u
	}
	return sub.topic().ended.Load()
}

// endLocked tells the client that its subscription is over, and forgets it once that was taken. A client that cannot subscribe by
// itself is disconnected instead, and connects again.
func (s *Session) endLocked(sub *Subscription, u push.Unsubscribe) {
	if s.oneWay {
		d := push.DisconnectInsufficientState
		if u.Code < 2500 {
			d = push.Disconnect{Code: push.DisconnectForceNoReconnect.Code, Reason: u.Reason}
		}
		s.carrier.Disconnect(d)
		s.blocked = true
		return
	}
	name := sub.topic().name
	f := Frame{Bytes: s.encoder.AppendUnsubscribe(nil, name, u), Channel: name}
	if s.carrier.TryWrite([]Frame{f}) == 0 {
		sub.ends.CompareAndSwap(nil, &u)
		s.blocked = true
		return
	}
	s.hub.stats.ended.Add(1)
	s.removeLocked(sub)
	s.hub.absentLater(sub)
}
