package hub

import (
	"math"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

const (
	// readEntries and readBytes bound one read of a subscription's log. The session's other subscriptions are read before it is read again.
	readEntries = 256
	readBytes   = 32 << 10
	// flushBytes is the size at which a flush writes although it has not looked at all subscriptions yet.
	flushBytes = 64 << 10
	// flushes is how many flushes in a row a goroutine does when it unlocks a session. A worker does the rest.
	flushes = 8
)

// # Why no wake-up is lost
//
// A goroutine that has something for a session first makes it visible: a publication in the log, the end of a subscription, the carrier's
// room. Then it sets the dirty bit, then it tries the lock. The holder of the lock clears the bit before it looks for work, and looks
// at the bit again after it has released the lock.
//
// If the try succeeds, the goroutine flushes the session itself. If the try fails, another goroutine holds the lock or is about to get it
// (TryLock may also fail against a goroutine that is taking the lock). That holder releases the lock after the bit was set, and so finds
// the bit. If it does not, a third goroutine has found and cleared the bit and looked for work, and the work was visible by then.
//
// A goroutine may clear the bit and then be unable to finish, because a read or its number of flushes is bounded. It then sets the bit
// again, or leaves the bit set and queues the session.
//
// A blocked session ignores the dirty bit. Its flush reads the logs from the cursors when the carrier has room again, and so finds everything.
// Flush reports that room through the writable bit. The carrier may open after it refused a frame and before the session notes the
// refusal. That is not missed: Flush sets the dirty bit after the writable one, and the refused flush ends with a look at the dirty bit.
// At worst the writable bit is set although the session was not blocked, which costs one more refusal.

// Flush sends the session everything that its client has not got yet, as far as the carrier takes it. The carrier's owner calls Flush when
// the carrier can take more.
func (s *Session) Flush() {
	s.writable.Store(true)
	s.wake()
}

// wake has the session flushed: by the caller, or by the goroutine that holds the lock.
func (s *Session) wake() {
	s.dirty.Store(true)
	if s.mu.TryLock() {
		s.unlock()
	}
}

// wakeByWorker has the session flushed by a worker.
func (s *Session) wakeByWorker() {
	s.dirty.Store(true)
	s.hub.workers.resume(s)
}

// unlock flushes the session if it is dirty, and releases its lock. A session on busy channels may be dirty again after each flush. After some
// flushes unlock leaves the session to the workers, which treat all such sessions alike, so that it does not hold up the caller.
func (s *Session) unlock() {
	for left := flushes; ; left-- {
		if s.dirty.Load() {
			if left == 0 {
				s.mu.Unlock()
				s.hub.workers.resume(s)
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

// resume flushes a session that a goroutine has left dirty, see workers.resume.
func (s *Session) resume() {
	s.queued.Store(false)
	if s.mu.TryLock() {
		s.unlock()
	}
}

// writeLocked offers the frames of a write to the carrier, moves the cursors past the frames that it took, and empties the write. If the
// carrier did not take all, the session is blocked, and the next flush begins with the first subscription that got nothing.
func (s *Session) writeLocked(out *sessionWrite) {
	taken := 0
	if len(out.frames) > 0 {
		taken = s.carrier.TryWrite(out.frames)
	}
	unwritten := out.commit(taken)
	if s.blockLocked(taken < len(out.frames)); s.blocked && unwritten < len(out.shares) {
		s.next = slices.Index(s.subs, out.shares[unwritten].sub)
	}
	out.clear()
}

// blockLocked notes whether the carrier refuses frames. If a retry is refused again, that is not counted as a new stall.
func (s *Session) blockLocked(isBlocked bool) {
	s.blocked = isBlocked
	switch {
	case s.stalled == isBlocked:
		return
	case isBlocked:
		s.hub.stats.stalls.Add(1)
		s.hub.stats.blocked.Add(1)
	default:
		s.hub.stats.blocked.Add(-1)
	}
	s.stalled = isBlocked
}

// flushLocked reads the logs of all subscriptions that are behind, one after the other, until the carrier takes no more. Their frames leave in
// one write, or in several if there are more than flushBytes.
func (s *Session) flushLocked() {
	if s.hasChanges.Load() {
		s.applyChangesLocked()
	}
	if s.closed {
		return
	}
	if s.blocked && !s.writable.Swap(false) {
		return
	}
	s.blocked = false // writeLocked sets it again if the carrier still refuses, and counts the change
	sc := scratches.Get().(*scratch)
	defer sc.release()
	for left := len(s.subs); left > 0 && len(s.subs) > 0 && !s.blocked && !s.closed; left-- {
		if s.next >= len(s.subs) {
			s.next = 0
		}
		sub := s.subs[s.next]
		s.next++
		if s.paced != nil && s.paced.isDeferred(sub) {
			continue
		}
		s.serveLocked(sub, math.MaxInt, sc)
		if sc.write.bytes >= flushBytes {
			s.writeLocked(&sc.write)
		}
	}
	if s.paced != nil {
		s.servePacedLocked(sc)
	}
	if !s.blocked {
		s.writeLocked(&sc.write)
	}
	s.armLocked()
	sc.write.counts.settle(s.hub.observer)
}

// isBehind reports whether the log has something that the subscription has not got.
func (sub *Subscription) isBehind() bool {
	t := sub.topic
	return t.newest.Load() > sub.cursor.Offset() || sub.cursor.Sweeping() || t.generation.Load() != sub.generation
}

// serveLocked reads about room bytes at most from the log of a subscription and adds their frames to the write. If the subscription is to end,
// serveLocked ends it.
func (s *Session) serveLocked(sub *Subscription, room int, sc *scratch) {
	if sub.ended() == nil && (!sub.isBehind() || s.readLocked(sub, room, sc)) {
		return
	}
	if s.writeLocked(&sc.write); !s.blocked { // if it is blocked, a later flush ends the subscription
		s.endLocked(sub)
	}
}

// readLocked reads about room bytes at most from the log of a subscription and adds their frames to the write. It reports false if
// publications are gone that the client must know of. The subscription is to end then.
//
// A client that is to be told of a loss is told with the next publication, because applications see nothing else of a subscription. Until
// there is a publication, the cursor stays below the log's floor. The next read from the cursor finds the same loss, together with what was
// lost since. If the client is disconnected meanwhile, it resumes from a position at which the log finds the same loss.
func (s *Session) readLocked(sub *Subscription, room int, sc *scratch) bool {
	t := sub.topic
	t.mu.Lock()
	if t.loading != nil {
		t.mu.Unlock()
		return true // join has the subscribers served when the topic is loaded
	}
	if generation := t.generation.Load(); sub.generation != generation {
		sub.cursor, sub.generation, sub.conflation = t.log.Rebase(sub.cursor), generation, 0
	}
	epoch := sub.view.Epoch(t.log.Epoch())
	budget := channel.Budget{Entries: readEntries, Bytes: min(readBytes, room)}
	deliveries, end, status := t.log.Read(sub.cursor, sub.view, budget, sc.deliveries[:0])
	progress, isUnrecoverable := t.log.Progress(), t.log.Unrecoverable(sub.cursor)
	t.mu.Unlock()

	sc.deliveries = deliveries
	defer clear(sc.deliveries)
	if status == channel.TooSlow {
		sub.endForLoss(0, isUnrecoverable)
		return false
	}
	if len(deliveries) > 0 && deliveries[0].Entry == nil { // Clear or Lost: they come first
		lost := deliveries[0].Lost
		if !sub.lossy {
			sub.endForLoss(lost, isUnrecoverable)
			return false
		}
		if deliveries = deliveries[1:]; len(deliveries) == 0 {
			return true
		}
		deliveries[0].Lost = lost
	}
	for len(deliveries) > 0 {
		n := together(s.encoder, t.name, deliveries)
		sc.write.add(frameOf(s.encoder, sub.address(), epoch, deliveries[:n]), deliveries[n-1].Next)
		deliveries = deliveries[n:]
	}
	sc.write.endFromLog(sub, end, progress, status == channel.More)
	if status == channel.More && !s.paced.goesBy(sub) { // the pacer queues a subscription that goes by it
		s.dirty.Store(true)
	}
	return true
}

// Why the hub ends subscriptions by itself.
var (
	resubscribe = &push.UnsubscribeInsufficientState // the client has to subscribe again and start fresh
	slow        = &push.UnsubscribeSlow              // the client was too slow, and the namespace's policy is to end it
)

// endForLoss marks a subscription as ended because its client cannot be sent all it has to get. It counts lost publications; −1 says that their
// number is not known. If the position is unrecoverable, so that every reader there lost the same, the reason is not slowness.
func (sub *Subscription) endForLoss(lost int64, isUnrecoverable bool) {
	n, why := sub.topic.part.namespace, resubscribe
	if !isUnrecoverable && (n.Slow == push.SlowUnsubscribe || n.Slow == push.SlowDisconnect) {
		why = slow
	}
	if sub.endReason.CompareAndSwap(nil, why) && lost != 0 {
		n.counts.CountLost(lost)
	}
}

// ended returns why the server ends the subscription, nil if it does not.
func (sub *Subscription) ended() *push.Unsubscribe {
	if u := sub.endReason.Load(); u != nil {
		return u
	}
	return sub.topic.ended.Load()
}

// endLocked tells the client that its subscription is over, and removes the subscription when the carrier has taken that frame. If the
// namespace's policy is to disconnect, or the client cannot subscribe by itself, endLocked ends the connection instead.
func (s *Session) endLocked(sub *Subscription) {
	if sub.of != nil { // its events cannot be told any more: the client subscribes again, and reads the presence anew
		sub = sub.of
		sub.endReason.CompareAndSwap(nil, resubscribe)
	}
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

// disconnectFor returns with what code the connection ends instead of a subscription. ok is false if only the subscription ends.
func (s *Session) disconnectFor(sub *Subscription, u *push.Unsubscribe) (d push.Disconnect, ok bool) {
	switch {
	case u == slow && (s.oneWay || sub.byServer || sub.topic.part.namespace.Slow == push.SlowDisconnect):
		return push.DisconnectSlow, true
	case !s.oneWay && (!sub.byServer || u.Code < push.UnsubscribeInsufficientState.Code):
		return d, false
	case u.Code < push.UnsubscribeInsufficientState.Code:
		return push.Disconnect{Code: push.DisconnectForceNoReconnect.Code, Reason: u.Reason}, true
	case u.Code == push.UnsubscribeStateInvalidated.Code:
		return push.DisconnectStateInvalidated, true
	default:
		return push.DisconnectInsufficientState, true
	}
}
