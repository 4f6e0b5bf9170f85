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

// evictedOthers is how many other channels each publish checks for old entries.
const evictedOthers = 2

// partition is one sequence of publications, with the channels it holds.
//
// An empty log is dropped at some time, because channels may be many and short-lived. Of all dropped logs the partition remembers one number,
// forgotten: the highest floor among them. An unknown channel may be one of the dropped ones, so that number is its floor. A floor that is too
// high only costs a client with an old position a fresh start. With a retention by age, an empty log stays until its last publication is that
// old, so that no client with a younger position is affected.
type partition struct {
	epoch string   // immutable: 128 random bits, so that no other partition ever has the same
	opts  *Options // immutable

	mu        sync.Mutex // guards all below
	policy    *channel.Policy
	head      uint64 // offset of the newest publication, 0 before the first
	now       int64  // Unix milliseconds; never goes back, even if the clock does
	forgotten uint64
	channels  map[string]*kept
	rotation  []*kept // all of channels, in the order of the checks for old entries
	next      int     // index in rotation of the channel that is next, or len(rotation)
	window    window
	attached  []*attachment
	room      chan struct{} // closed when a follower takes its queue; nil while no publisher waits
	closed    bool
}

// kept is a channel with a log.
type kept struct {
	name  string
	log   *channel.Log
	last  int64 // time of the newest publication
	index int   // index in partition.rotation
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

// tryPublish stores m. If a follower has no room, it returns a channel that is closed when another try is worth while.
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

// storeLocked assigns the offset and time of m, and appends it to its channel's log.
func (p *partition) storeLocked(m *broker.Message) {
	p.evictOthersLocked()
	c := p.channels[m.Channel]
	if c == nil {
		c = &kept{
			name:  m.Channel,
			log:   channel.New(p.policy, p.positionLocked(), p.forgotten),
			index: len(p.rotation),
		}
		p.channels[m.Channel] = c
		p.rotation = append(p.rotation, c)
	}
	p.head++
	m.Offset, m.Time = p.head, p.now
	c.log.Append(m.Publication)
	c.log.Expire(p.now)
	c.last = p.now
}

// evictOthersLocked evicts old entries of the next channels in turn.
func (p *partition) evictOthersLocked() {
	for i := 0; i < evictedOthers && len(p.rotation) > 0; i++ {
		if p.next >= len(p.rotation) {
			p.next = 0
		}
		if isForgotten := p.evictLocked(p.rotation[p.next]); !isForgotten { // otherwise another channel has moved to this index
			p.next++
		}
	}
}

// evictLocked evicts the entries of a channel that are too old. If none is left and its last publication is too old as well, it drops the
// channel.
func (p *partition) evictLocked(c *kept) (isForgotten bool) {
	c.log.Expire(p.now)
	if c.log.Len() > 0 || c.last > p.now-p.policy.History.Age.Milliseconds() {
		return false
	}
	p.forgotten = max(p.forgotten, c.log.Floor())
	delete(p.channels, c.name)
	moved := p.rotation[len(p.rotation)-1]
	p.rotation[c.index], moved.index = moved, c.index
	p.rotation[len(p.rotation)-1] = nil
	p.rotation = p.rotation[:len(p.rotation)-1]
	return true
}

// load returns the entries of a channel at this moment. If rowsOnly, it leaves out removals.
func (p *partition) load(name string, rowsOnly bool) ([]*channel.Entry, broker.History, error) {
	now := p.opts.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, broker.History{}, broker.ErrClosed
	}
	p.now = max(p.now, now)
	h := broker.History{Epoch: p.epoch, Floor: p.forgotten, Head: p.head}
	rowsOnly = rowsOnly && p.policy.Mode != push.Stream
	var entries []*channel.Entry
	if c := p.channels[name]; c != nil {
		c.log.Expire(p.now)
		h.Floor = c.log.Floor()
		entries = slices.AppendSeq(make([]*channel.Entry, 0, c.log.Len()), c.log.Entries())
	}
	if rowsOnly {
		h.Floor = h.Head
		entries = slices.DeleteFunc(entries, func(e *channel.Entry) bool { return e.Op == push.Remove })
	}
	return entries, h, nil
}

// retain changes the retention. Logs share their policy and require that it does not change, so they are rebuilt.
func (p *partition) retain(h push.History) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = &channel.Policy{Mode: p.policy.Mode, History: h}
	for _, c := range p.rotation {
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

// close ends all attachments, and returns channels that are closed when their goroutines have ended.
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
