package hub

import (
	"math"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

const (
	// turnEntries and turnBytes are how much of one subscription is read before the session's others have their turn.
	turnEntries = 256
	turnBytes   = 32 << 10
	// flushBytes is from how many bytes on a flush writes before it has looked at all subscriptions.
	flushBytes = 64 << 10
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

// wakeLater has the session flushed by a worker.
func (s *Session) wakeLater() {
	s.dirty.Store(true)
	s.hub.workers.later(s)
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

// serve gives a session what a round has for it, from item first on, in one write. Where the shared frames do not do, the session's
// own flush follows.
func (s *Session) serve(r *round, first int32, out *batch) {
	if !s.mu.TryLock() {
		s.dirty.Store(true)
		if !s.mu.TryLock() {
			return // whoever holds the lock looks at the bit before and after letting go
		}
	}
	switch {
	case s.closed:
	case s.blocked:
		s.dirty.Store(true)
	default:
		for i := first; i != none; i = r.items[i].next {
			it := &r.items[i]
			if s.paced != nil && s.paced.isHeld(it.sub, len(r.passes[it.pass].entries)) {
				continue
			}
			before := out.bytes
			if !r.passes[it.pass].serve(it.sub, out) {
				s.dirty.Store(true)
			}
			if s.paced != nil {
				s.paced.spend(it.sub, out.bytes-before)
			}
		}
		s.writeLocked(out)
		s.armLocked()
	}
	s.unlock()
}

// writeLocked offers a batch to the carrier, moves the cursors as far as it was taken, and empties it. When something was not taken
// the session is blocked, and the first subscription that got nothing is the next to be served.
func (s *Session) writeLocked(out *batch) {
	taken := 0
	if len(out.frames) > 0 {
		taken = s.carrier.TryWrite(out.frames)
	}
	untouched := out.commit(taken)
	if s.blockLocked(taken < len(out.frames)); s.blocked && untouched < len(out.parts) {
		s.next = slices.Index(s.subs, out.parts[untouched].sub)
	}
	out.clear()
}

// blockLocked notes whether the carrier takes nothing. A retry that is refused again is no new stall.
func (s *Session) blockLocked(isBlocked bool) {
	s.blocked = isBlocked
	switch {
	case s.stalled == isBlocked:
		return
	case isBlocked:
		s.hub.stats.blocked.Add(1)
		s.hub.stats.stalls.Add(1)
	default:
		s.hub.stats.blocked.Add(-1)
	}
	s.stalled = isBlocked
}

// flushLocked serves all subscriptions that have something to get, in turn, until the carrier takes no more. What they get leaves
// together.
func (s *Session) flushLocked() {
	if s.ordered.Load() {
		s.obeyLocked()
	}
	if s.closed {
		return
	}
	if s.blocked && !s.writable.Swap(false) {
		return
	}
	s.blocked = false // until it refuses again; if it does not, the write below says so
	sc := scratches.Get().(*scratch)
	defer sc.release()
	for left := len(s.subs); left > 0 && !s.blocked && !s.closed; left-- {
		if s.next >= len(s.subs) {
			s.next = 0
		}
		sub := s.subs[s.next]
		s.next++
		if s.paced != nil && s.paced.isInTurn(sub) {
			continue
		}
		s.serveLocked(sub, math.MaxInt, sc)
		if sc.batch.bytes >= flushBytes {
			s.writeLocked(&sc.batch)
		}
	}
	if s.paced != nil {
		s.turnsLocked(sc)
	}
	if !s.blocked {
		s.writeLocked(&sc.batch)
	}
	s.armLocked()
	sc.batch.counts.settle(s.hub.observer)
}

// isBehind reports whether there is something that the subscription has not got.
func (sub *Subscription) isBehind() bool {
	t := sub.topic
	return t.newest.Load() > sub.cursor.Offset() || sub.cursor.Sweeping() || t.life.Load() != sub.life
}

// serveLocked adds to the batch what one subscription is to get next, from its log: about so many bytes at most.
func (s *Session) serveLocked(sub *Subscription, room int, sc *scratch) {
	if sub.ended() == nil && (!sub.isBehind() || s.readLocked(sub, room, sc)) {
		return
	}
	if s.writeLocked(&sc.batch); !s.blocked { // otherwise this comes up once more
		s.endLocked(sub)
	}
}

// readLocked adds to the batch what a subscription is to get next, about so many bytes at most. It reports false when the client cannot be
// told all it has to know, so that its subscription is to end.
//
// What a client has lost and is told of goes with the next publication, since nothing else of a subscription reaches applications. Until
// there is one the cursor stays where it is, below the floor: whoever reads the log from there finds the same loss once more, and what
// was lost since with it. A client that is cut meanwhile comes back with a position of which the log knows the same.
func (s *Session) readLocked(sub *Subscription, room int, sc *scratch) bool {
	t := sub.topic
	t.mu.Lock()
	if t.loading != nil {
		t.mu.Unlock()
		return true // it is kicked when it is
	}
	if life := t.life.Load(); sub.life != life {
		sub.cursor, sub.life, sub.tally = t.log.Rebase(sub.cursor), life, 0
	}
	epoch := sub.view.Epoch(t.log.Epoch())
	budget := channel.Budget{Entries: turnEntries, Bytes: min(turnBytes, room)}
	deliveries, end, status := t.log.Read(sub.cursor, sub.view, budget, sc.deliveries[:0])
	progress, isVoided := t.log.Progress(), t.log.Voided(sub.cursor)
	t.mu.Unlock()

	sc.deliveries = deliveries
	defer clear(sc.deliveries)
	if status == channel.TooSlow {
		sub.giveUp(0, isVoided)
		return false
	}
	if len(deliveries) > 0 && deliveries[0].Entry == nil { // Clear or Lost: they come first
		lost := deliveries[0].Lost
		if !sub.lossy {
			sub.giveUp(lost, isVoided)
			return false
		}
		if deliveries = deliveries[1:]; len(deliveries) == 0 {
			return true
		}
		deliveries[0].Lost = lost
	}
	for len(deliveries) > 0 {
		n := together(s.encoder, t.name, deliveries)
		sc.batch.add(frameOf(s.encoder, sub.address(), epoch, deliveries[:n]), deliveries[n-1].Next)
		deliveries = deliveries[n:]
	}
	sc.batch.endLate(sub, end, progress, status == channel.More)
	if status == channel.More && !s.paced.goesBy(sub) { // otherwise it stands in line for what is left
		s.dirty.Store(true)
	}
	return true
}

// Why the hub ends subscriptions by itself.
var (
	afresh = &push.UnsubscribeInsufficientState // so that the client begins afresh
	slow   = &push.UnsubscribeSlow              // it has to bear that its client is slow
)

// giveUp has a subscription end whose client cannot be told all it has to know, and counts what it lost, −1 when nobody knows. That is not for
// its slowness if everybody who had not read further is in the same place.
func (sub *Subscription) giveUp(lost int64, isVoided bool) {
	n, why := sub.topic.part.namespace, afresh
	if !isVoided && (n.Slow == push.SlowUnsubscribe || n.Slow == push.SlowDisconnect) {
		why = slow
	}
	if sub.ends.CompareAndSwap(nil, why) && lost != 0 {
		n.counts.countLost(lost)
	}
}

// ended returns why the server ends the subscription, nil if it does not.
func (sub *Subscription) ended() *push.Unsubscribe {
	if u := sub.ends.Load(); u != nil {
		return u
	}
	return sub.topic.ended.Load()
}

// endLocked tells the client that its subscription is over, and forgets it once that was taken. Where the policy says so, and a client
// that cannot subscribe by itself, is disconnected instead, and connects again.
func (s *Session) endLocked(sub *Subscription) {
	u := sub.ended()
	if d, ok := s.disconnectFor(sub, u); ok {
		s.carrier.Disconnect(d)
		s.blockLocked(true)
		return
	}
	name := sub.topic.name
	f := Frame{Bytes: s.encoder.AppendUnsubscribe(nil, name, *u), Channel: name}
	if s.carrier.TryWrite([]Frame{f}) == 0 {
		s.blockLocked(true)
		return
	}
	sub.countEnded(*u)
	s.removeLocked(sub)
	s.hub.absentLater(sub)
}

// disconnectFor returns how the connection ends instead of a subscription, if it does.
func (s *Session) disconnectFor(sub *Subscription, u *push.Unsubscribe) (d push.Disconnect, ok bool) {
	switch {
	case u == slow && (s.oneWay || sub.topic.part.namespace.Slow == push.SlowDisconnect):
		return push.DisconnectSlow, true
	case !s.oneWay:
		return d, false
	case u.Code < push.UnsubscribeInsufficientState.Code:
		return push.Disconnect{Code: push.DisconnectForceNoReconnect.Code, Reason: u.Reason}, true
	default:
		return push.DisconnectInsufficientState, true
	}
}
