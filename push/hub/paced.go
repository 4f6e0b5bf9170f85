package hub

import (
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/pace"
	"github.com/sluice-push/sluice/push/timers"
)

// # Rate limiting
//
// A session that has a bandwidth, or a subscription with an interval, has a pacer (package pace). The pacer decides when its subscriptions are
// served. If a subscription's interval is over, bandwidth is left, and no other subscription of the session waits, a fan-out batch serves it
// like any other. Otherwise it waits in the pacer. No publications are queued meanwhile: when the pacer admits the subscription, it
// reads its log, and finds the newest entries. If the pacer admits none now, a timer wakes the session when it will.
//
// While nothing is published, a pacer does nothing, and sets no timer.

// paced is the pacer of a session. The session's lock guards it.
type paced struct {
	pacer  pace.Pacer[*Subscription]
	items  map[*Subscription]*pace.Item[*Subscription] // of the subscriptions that go by the pacer
	timers *timers.Scheduler[*Session]

	timer *timers.Timer[*Session]
}

// pacedLocked returns the session's pacer. It makes one if there is none.
func (s *Session) pacedLocked() *paced {
	if s.paced == nil {
		s.paced = &paced{timers: s.hub.timers, timer: timers.NewTimer(s), items: map[*Subscription]*pace.Item[*Subscription]{}}
	}
	return s.paced
}

// interval returns the interval of a subscription that asks for one; 0 asks for the namespace's default.
func (n *namespace) interval(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = n.Interval
	}
	return max(asked, n.MinInterval, 0)
}

// bandwidth returns the bandwidth of a client that asks for one, in bytes a second; 0: no bound.
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

// setBandwidthLocked sets the session's bandwidth in bytes a second; 0: no bound. With a bound, all its subscriptions go by the pacer from then on.
func (s *Session) setBandwidthLocked(bandwidth int64) {
	if bandwidth == 0 && s.paced == nil {
		return
	}
	p := s.pacedLocked()
	p.pacer.SetBandwidth(p.timers.Now(), bandwidth)
	if bandwidth == 0 {
		return
	}
	for _, sub := range s.subs {
		p.add(sub, 0)
	}
}

// add has a subscription go by the pacer, and returns its item. If the subscription has an item already, that keeps its interval.
func (p *paced) add(sub *Subscription, interval time.Duration) *pace.Item[*Subscription] {
	it := p.items[sub]
	if it == nil {
		it = pace.NewItem(sub, int64(interval), sub.topic.part.namespace.Priority)
		p.items[sub] = it
	}
	return it
}

// paceLocked returns the interval that a new subscription has, and counts the deliveries of its answer against the bandwidth. If these are all
// that the log has, the interval begins now.
func (s *Session) paceLocked(sub *Subscription, interval time.Duration, answered []channel.Delivery) time.Duration {
	if interval == 0 && s.paced == nil {
		return 0
	}
	p := s.pacedLocked()
	if interval == 0 && p.pacer.Bandwidth() == 0 {
		return 0
	}
	now, bytes := p.timers.Now(), 0
	for i := range answered {
		bytes += answered[i].Entry.Size() + publicationBytes
	}
	p.pacer.Consume(now, int64(bytes))
	p.pacer.Served(p.add(sub, interval), now, !sub.isBehind())
	return interval
}

// SetBandwidth limits the bytes of publications that the client is sent per second, and returns the limit in force: the one asked for, or the
// hub's if that is less. 0 asks for no limit of the session's own. Under a limit tables and values are conflated; streams fall behind.
func (s *Session) SetBandwidth(asked int64) int64 {
	s.mu.Lock()
	defer s.unlock()
	s.setBandwidthLocked(s.hub.bandwidth(asked))
	s.dirty.Store(true) // the pacer may admit a subscription now
	return s.bandwidthLocked()
}

// Bandwidth returns how many bytes of publications the client is sent per second at most; 0: no bound.
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

// SetInterval changes the interval of a subscription, see [SubscribeRequest], and returns the interval in force. The error is
// push.ErrBadRequest if there is no such subscription.
func (s *Session) SetInterval(name string, asked time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.unlock()
	sub := s.find(name)
	if sub == nil {
		return 0, push.ErrBadRequest.WithMessage("not subscribed to %q", name)
	}
	holds := s.setIntervalLocked(sub, asked)
	s.dirty.Store(true) // the pacer may admit it now
	return holds, nil
}

// setIntervalLocked sets the interval of a subscription, and returns the interval in force.
func (s *Session) setIntervalLocked(sub *Subscription, asked time.Duration) time.Duration {
	holds := sub.topic.part.namespace.interval(asked)
	if holds == 0 && !s.paced.goesBy(sub) {
		return 0
	}
	p := s.pacedLocked()
	p.pacer.SetInterval(p.add(sub, holds), p.timers.Now(), int64(holds))
	return holds
}

// isHeld reports whether a subscription with so many new entries has to wait for the pacer. If so, it queues the subscription. With a bandwidth,
// several entries always wait, because the pacer may admit fewer bytes than all of them.
func (p *paced) isHeld(sub *Subscription, entries int) bool {
	it := p.items[sub]
	if it == nil || sub.ended() != nil {
		return false
	}
	now := p.timers.Now()
	if p.pacer.Allows(it, now) && (entries == 1 || p.pacer.Bandwidth() == 0) {
		return false
	}
	p.pacer.Add(it, now)
	return true
}

// isDeferred reports whether only the pacer decides when a subscription is served. If the subscription is behind, isDeferred queues it.
func (p *paced) isDeferred(sub *Subscription) bool {
	it := p.items[sub]
	if it == nil || sub.ended() != nil {
		return false
	}
	if sub.isBehind() {
		p.pacer.Add(it, p.timers.Now())
	}
	return true
}

// goesBy reports whether a subscription goes by the pacer. p may be nil.
func (p *paced) goesBy(sub *Subscription) bool { return p != nil && p.items[sub] != nil }

// consume counts bytes that are about to be written to a subscription against the bandwidth.
func (p *paced) consume(sub *Subscription, bytes int) {
	if p.goesBy(sub) {
		p.pacer.Consume(p.timers.Now(), int64(bytes))
	}
}

// settle tells the pacer how the write of a share ended. frames is the number of its frames; left are the frames that the carrier refused.
func (p *paced) settle(sh *share, frames int, left []Frame) {
	it := p.items[sh.sub]
	if it == nil {
		return
	}
	if frames == 0 && !sh.isMore {
		p.pacer.Skipped(it)
		return
	}
	now, bytes := p.timers.Now(), 0
	for i := range left {
		bytes += len(left[i].Bytes)
	}
	p.pacer.Consume(now, -int64(bytes))
	p.pacer.Served(it, now, len(left) == 0 && !sh.isMore)
}

func (p *paced) remove(sub *Subscription) {
	if it := p.items[sub]; it != nil {
		p.pacer.Remove(it)
		delete(p.items, sub)
	}
}

// servePacedLocked reads the logs of the subscriptions that the pacer admits now, and adds their frames to the write.
func (s *Session) servePacedLocked(sc *scratch) {
	p := s.paced
	for !s.blocked && !s.closed {
		now := p.timers.Now()
		it := p.pacer.Next(now)
		if it == nil {
			return
		}
		shares, bytes := len(sc.write.shares), sc.write.bytes
		s.serveLocked(it.Value, p.pacer.Available(now), sc)
		if len(sc.write.shares) <= shares { // nothing is new, the channel is being loaded, or the subscription has ended
			p.pacer.Skipped(it)
			continue
		}
		p.pacer.Consume(now, int64(sc.write.bytes-bytes))
		if sc.write.bytes >= flushBytes {
			s.writeLocked(&sc.write)
			return // the rest is for the next flush, which armLocked asks for; unlock bounds how many follow each other
		}
	}
}

// armLocked arranges for the next flush: at once if the pacer admits a subscription now, otherwise by the timer.
func (s *Session) armLocked() {
	if s.paced == nil || s.blocked {
		return
	}
	p := s.paced
	switch at := p.pacer.NextTime(); {
	case at == pace.Never:
	case at <= p.timers.Now():
		s.dirty.Store(true)
	default:
		p.timers.Set(p.timer, at)
	}
}
