package memory

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

// tended is how many channels a publish looks after besides its own.
const tended = 2

// partition is one sequence of publications, with the channels it holds.
//
// An empty log is not kept for ever: channels may be many and short-lived. What has to be remembered of all that were dropped is one
// number, forgotten: the highest floor among them. A channel that is not known may be one of them, so it promises nothing from
// before; too high a floor only costs a client with an old position a fresh start. With a retention by age an empty log stays until
// its last publication is that old, so that this happens to nobody whose position is younger.
type partition struct {
	epoch string   // set at creation: 128 random bits name this partition of this broker, so that there is never another like it
	opts  *Options // set at creation

	mu        sync.Mutex // guards all below
	policy    *channel.Policy
	head      uint64 // offset of the newest publication, 0 before the first
	now       int64  // Unix milliseconds; never goes back, even if the clock does
	forgotten uint64
	channels  map[string]*kept
	turns     []*kept // all of channels, in the order in which they are tended
	turn      int     // index in turns of the next, or its end
	window    window
	attached  []*attachment
	room      chan struct{} // closed when a follower took what was queued for it; nil while nobody waits for that
	closed    bool
}

// kept is a channel of which something is kept.
type kept struct {
	name string
	log  *channel.Log
	last int64 // time of the newest publication
	turn int   // index in partition.turns
}

func newPartition(opts *Options, ns broker.Namespace) *partition {
	return &partition{
		epoch:    rand.Text(),
		opts:     opts,
		policy:   &channel.Policy{Mode: ns.Mode, History: ns.History},
		channels: make(map[string]*kept),
		window:   newWindow(opts.IdempotencyKeys),
	}
}

// publish stores m as soon as all followers have room for it.
func (p *partition) publish(ctx context.Context, m broker.Message, key string) (push.Position, error) {
	sum := digestOf(m.Channel, key)
	pos, room, err := p.tryPublish(m, sum)
	if room == nil {
		return pos, err
	}
	timeout := time.NewTimer(p.opts.PublishWait)
	defer timeout.Stop()
	for room != nil {
		select {
		case <-room:
		case <-ctx.Done():
			return push.Position{}, ctx.Err()
		case <-timeout.C:
			return push.Position{}, broker.ErrBusy
		}
		pos, room, err = p.tryPublish(m, sum)
	}
	return pos, err
}

// tryPublish stores m, or returns a channel that is closed when another try is worth while.
func (p *partition) tryPublish(m broker.Message, sum *digest) (push.Position, <-chan struct{}, error) {
	now := p.opts.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return push.Position{}, nil, broker.ErrClosed
	}
	p.now = max(p.now, now)
	if sum != nil {
		if first, isDuplicate := p.window.look(*sum, p.now); isDuplicate {
			return push.Position{Epoch: p.epoch, Offset: first}, nil, nil
		}
	}
	if slices.ContainsFunc(p.attached, (*attachment).isFullLocked) {
		if p.room == nil {
			p.room = make(chan struct{})
		}
		return push.Position{}, p.room, nil
	}
	p.storeLocked(&m)
	if sum != nil {
		p.window.add(*sum, p.now, m.Offset)
	}
	for _, a := range p.attached {
		a.queueLocked(m)
	}
	return p.positionLocked(), nil, nil
}

// storeLocked gives m its offset and time and appends it to its channel's log.
func (p *partition) storeLocked(m *broker.Message) {
	p.tendLocked()
	c := p.channels[m.Channel]
	if c == nil {
		c = &kept{
			name: m.Channel,
			log:  channel.New(p.policy, p.positionLocked(), p.forgotten),
			turn: len(p.turns),
		}
		p.channels[m.Channel] = c
		p.turns = append(p.turns, c)
	}
	p.head++
	m.Offset, m.Time = p.head, p.now
	c.log.Append(m.Publication)
	c.log.Expire(p.now)
	c.last = p.now
}

// tendLocked looks after the channels whose turn it is.
func (p *partition) tendLocked() {
	for i := 0; i < tended && len(p.turns) > 0; i++ {
		if p.turn >= len(p.turns) {
			p.turn = 0
		}
		if isForgotten := p.evictLocked(p.turns[p.turn]); !isForgotten { // otherwise another is in its place
			p.turn++
		}
	}
}

// evictLocked evicts what is too old of a channel, and forgets the channel when nothing is left.
func (p *partition) evictLocked(c *kept) (isForgotten bool) {
	c.log.Expire(p.now)
	if c.log.Len() > 0 || c.last > p.now-p.policy.History.Age.Milliseconds() {
		return false
	}
	p.forgotten = max(p.forgotten, c.log.Floor())
	delete(p.channels, c.name)
	moved := p.turns[len(p.turns)-1]
	p.turns[c.turn], moved.turn = moved, c.turn
	p.turns[len(p.turns)-1] = nil
	p.turns = p.turns[:len(p.turns)-1]
	return true
}

// load returns what is kept of a channel at this moment.
func (p *partition) load(name string) ([]*channel.Entry, broker.History, error) {
	now := p.opts.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, broker.History{}, broker.ErrClosed
	}
	p.now = max(p.now, now)
	h := broker.History{Epoch: p.epoch, Floor: p.forgotten, Head: p.head}
	c := p.channels[name]
	if c == nil {
		return nil, h, nil
	}
	c.log.Expire(p.now)
	h.Floor = c.log.Floor()
	entries := slices.AppendSeq(make([]*channel.Entry, 0, c.log.Len()), c.log.Entries())
	return entries, h, nil
}

// retain makes the partition keep what h allows. Logs share their policy and do not expect it to change, so they are built anew.
func (p *partition) retain(h push.History) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = &channel.Policy{Mode: p.policy.Mode, History: h}
	for _, c := range p.turns {
		log := channel.New(p.policy, push.Position{Epoch: p.epoch}, c.log.Floor())
		for e := range c.log.Entries() {
			log.Append(e.Publication)
		}
		log.Advance(p.head)
		c.log = log
	}
}

func (p *partition) position() push.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.positionLocked()
}

func (p *partition) positionLocked() push.Position {
	return push.Position{Epoch: p.epoch, Offset: p.head}
}

// makeRoomLocked lets waiting publishers try again.
func (p *partition) makeRoomLocked() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

// close ends all attachments and returns what is closed when they have ended.
func (p *partition) close() []<-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.makeRoomLocked()
	var wait []<-chan struct{}
	for _, a := range p.attached {
		a.stopLocked()
		wait = append(wait, a.ended)
	}
	return wait
}
