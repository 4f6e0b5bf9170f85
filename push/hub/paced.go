package hub

import (
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/alarm"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/pace"
)

// # Served later
//
// A session that has a bandwidth, or a subscription with an interval, has a pacer: see package pace. Such a subscription is served by a round
// like any other when its time has come and nobody waits. Otherwise it waits for its turn, and nothing waits with it: in its turn it
// reads its log, and finds what is newest then. When nobody has a turn now, an alarm wakes the session when somebody has.
//
// While nothing is published a pacer does nothing, and has no alarm.

// paced is the pacer of a session, whose lock guards it.
type paced struct {
	pacer pace.Pacer[*Subscription]
	items map[*Subscription]*pace.Item[*Subscription] // of those that do not go by the pacer there is none
	clock *alarm.Clock[*Session]

	alarm *alarm.Alarm[*Session]
}

// pacedLocked returns the session's pacer, which it has from then on.
func (s *Session) pacedLocked() *paced {
	if s.paced == nil {
		s.paced = &paced{clock: s.hub.alarms, alarm: alarm.Of(s), items: map[*Subscription]*pace.Item[*Subscription]{}}
	}
	return s.paced
}

// interval returns what holds for a subscription that asks for an interval.
func (n *namespace) interval(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = n.Interval
	}
	return max(asked, n.MinInterval, 0)
}

// bandwidth returns what holds for a client that asks for so many bytes a second.
func (h *Hub) bandwidth(asked int64) int64 {
	switch most := h.options.Bandwidth; {
	case asked <= 0:
		return max(most, 0)
	case most <= 0:
		return asked
	default:
		return min(asked, most)
	}
}

// boundLocked bounds the session's bandwidth; 0: no bound. With one, all its subscriptions go by the pacer from then on.
func (s *Session) boundLocked(bandwidth int64) {
	if bandwidth == 0 && s.paced == nil {
		return
	}
	p := s.pacedLocked()
	p.pacer.SetBandwidth(p.clock.Now(), bandwidth)
	if bandwidth == 0 {
		return
	}
	for _, sub := range s.subs {
		p.add(sub, 0)
	}
}

// add has a subscription go by the pacer, if it does not already.
func (p *paced) add(sub *Subscription, interval time.Duration) *pace.Item[*Subscription] {
	it := p.items[sub]
	if it == nil {
		it = pace.NewItem(sub, int64(interval), sub.topic.part.namespace.Priority)
		p.items[sub] = it
	}
	return it
}

// paceLocked begins a subscription's interval with the deliveries of its answer, if these are all there is, and returns it.
func (s *Session) paceLocked(sub *Subscription, interval time.Duration, answered []channel.Delivery) time.Duration {
	if interval == 0 && s.paced == nil {
		return 0
	}
	p := s.pacedLocked()
	if interval == 0 && p.pacer.Bandwidth() == 0 {
		return 0
	}
	now, bytes := p.clock.Now(), 0
	for i := range answered {
		bytes += answered[i].Entry.Size() + publicationBytes
	}
	p.pacer.Spend(now, int64(bytes))
	p.pacer.Served(p.add(sub, interval), now, !sub.isBehind())
	return interval
}

// SetBandwidth bounds how many bytes of publications a second the client is sent from now on, and returns what holds: what is asked for,
// or what the hub allows if that is less. 0 asks for no bound of its own. Nothing is lost for it in tables and values; streams fall behind.
func (s *Session) SetBandwidth(asked int64) int64 {
	s.mu.Lock()
	defer s.unlock()
	s.boundLocked(s.hub.bandwidth(asked))
	s.dirty.Store(true) // there may be somebody whose turn it is now
	return s.bandwidthLocked()
}

// Bandwidth returns how many bytes of publications a second the client is sent at most; 0: no bound.
func (s *Session) Bandwidth() int64 {
	s.mu.Lock()
	defer s.unlock()
	return s.bandwidthLocked()
}

func (s *Session) bandwidthLocked() int64 {
	if s.paced == nil {
		return 0
	}
	return s.paced.pacer.Bandwidth()
}

// SetInterval changes the interval of a subscription, see [SubscribeRequest], and returns what holds. The error is push.ErrBadRequest when
// there is no such subscription.
func (s *Session) SetInterval(name string, asked time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.unlock()
	sub := s.find(name)
	if sub == nil {
		return 0, push.ErrBadRequest.WithMessage("not subscribed to %q", name)
	}
	holds := s.spaceLocked(sub, asked)
	s.dirty.Store(true) // it may be its turn now
	return holds, nil
}

// spaceLocked gives a subscription an interval and returns what holds.
func (s *Session) spaceLocked(sub *Subscription, asked time.Duration) time.Duration {
	holds := sub.topic.part.namespace.interval(asked)
	if holds == 0 && !s.paced.goesBy(sub) {
		return 0
	}
	p := s.pacedLocked()
	p.pacer.SetInterval(p.add(sub, holds), p.clock.Now(), int64(holds))
	return holds
}

// isHeld reports whether a subscription for which there are so many new entries has to wait for its turn, and notes that it does. With a
// bandwidth a turn may be less than all of them.
func (p *paced) isHeld(sub *Subscription, entries int) bool {
	it := p.items[sub]
	if it == nil || sub.ended() != nil {
		return false
	}
	now := p.clock.Now()
	if p.pacer.Free(it, now) && (entries == 1 || p.pacer.Bandwidth() == 0) {
		return false
	}
	p.pacer.Add(it, now)
	return true
}

// isInTurn reports whether a subscription is served in its turn only, and notes that it waits for that if there is something for it.
func (p *paced) isInTurn(sub *Subscription) bool {
	it := p.items[sub]
	if it == nil || sub.ended() != nil {
		return false
	}
	if sub.isBehind() {
		p.pacer.Add(it, p.clock.Now())
	}
	return true
}

// goesBy reports whether a subscription goes by a pacer, which may be nil.
func (p *paced) goesBy(sub *Subscription) bool { return p != nil && p.items[sub] != nil }

// spend counts bytes that are about to be written.
func (p *paced) spend(sub *Subscription, bytes int) {
	if p.goesBy(sub) {
		p.pacer.Spend(p.clock.Now(), int64(bytes))
	}
}

// settle ends the turn of a part with so many frames, of which some were not taken.
func (p *paced) settle(part *part, frames int, left []Frame) {
	it := p.items[part.sub]
	if it == nil {
		return
	}
	if frames == 0 && !part.isMore {
		p.pacer.Passed(it)
		return
	}
	now, bytes := p.clock.Now(), 0
	for i := range left {
		bytes += len(left[i].Bytes)
	}
	p.pacer.Spend(now, -int64(bytes))
	p.pacer.Served(it, now, len(left) == 0 && !part.isMore)
}

func (p *paced) remove(sub *Subscription) {
	if it := p.items[sub]; it != nil {
		p.pacer.Remove(it)
		delete(p.items, sub)
	}
}

// turnsLocked adds to the batch what those get whose turn it is.
func (s *Session) turnsLocked(sc *scratch) {
	p := s.paced
	for !s.blocked && !s.closed {
		now := p.clock.Now()
		it := p.pacer.Next(now)
		if it == nil {
			return
		}
		parts, bytes := len(sc.batch.parts), sc.batch.bytes
		s.serveLocked(it.Value, p.pacer.Room(now), sc)
		if len(sc.batch.parts) <= parts { // there was nothing, its channel is being loaded, or it has ended
			p.pacer.Passed(it)
			continue
		}
		p.pacer.Spend(now, int64(sc.batch.bytes-bytes))
		if sc.batch.bytes >= flushBytes {
			s.writeLocked(&sc.batch)
			return // those who are left have their turns in the next flush, of which there are so many in a row: see unlock
		}
	}
}

// armLocked sees to it that the session is served again when somebody has a turn.
func (s *Session) armLocked() {
	if s.paced == nil || s.blocked {
		return
	}
	p := s.paced
	switch at := p.pacer.When(); {
	case at == pace.Never:
	case at <= p.clock.Now():
		s.dirty.Store(true)
	default:
		p.clock.Set(p.alarm, at)
	}
}
