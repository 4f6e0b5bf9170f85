package hub

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

// heldMessages is how many live messages are held back while a topic is loading; more, and it is loaded again.
const heldMessages = 8192

// loading is the load of a topic that is under way, or that failed. Its topic's lock guards it.
type loading struct {
	done   chan struct{} // closed at its end
	err    error         // why it failed; set before done is closed
	held   []broker.Message
	missed bool // what is being read is not all: more arrived than are held, or there was a gap
}

func newLoading() *loading { return &loading{done: make(chan struct{})} }

// wait returns when the topic is loaded.
func (t *topic) wait(ctx context.Context) error {
	t.mu.Lock()
	l := t.loading
	t.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return push.ErrInternal.WithMessage("the channel could not be loaded in time")
	}
}

// load fills the log from the broker and joins it with what arrived meanwhile.
func (t *topic) load() {
	h := t.part.hub
	ctx, cancel := context.WithTimeout(h.ctx, h.options.LoadTimeout)
	defer cancel()
	select {
	case h.loading <- struct{}{}:
		defer func() { <-h.loading }()
	case <-ctx.Done():
		t.fail(ctx.Err())
		return
	}
	for {
		log, err := t.read(ctx)
		if err != nil {
			t.fail(err)
			return
		}
		if t.join(log) {
			return
		}
	}
}

// read makes a log of what the broker keeps.
func (t *topic) read(ctx context.Context) (*channel.Log, error) {
	p := t.part
	for {
		epoch := p.currentEpoch()
		log := channel.New(&p.namespace.policy, push.Position{Epoch: epoch}, 0)
		found, err := p.hub.broker.Load(ctx, t.name, func(pub push.Publication) error {
			log.Append(pub)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if found.Epoch == epoch {
			log.Loaded(found.Head, found.Floor)
			return log, nil
		}
		// The partition began a new life that its follower has not heard of yet, or just has.
		if t.ended.Load() != nil {
			return nil, errors.New("the channel's life ended")
		}
		if err := p.epochChange(ctx, epoch); err != nil {
			return nil, err
		}
	}
}

// join makes log the topic's, with the messages held back while it was read. It reports false when it has to be read again.
func (t *topic) join(log *channel.Log) bool {
	t.mu.Lock()
	l := t.loading
	if l.missed {
		l.missed, l.held = false, nil
		t.mu.Unlock()
		return false
	}
	for i := range l.held {
		log.Append(l.held[i].Publication)
	}
	t.log, t.loading = log, nil
	t.keepChangesLocked()
	t.forgetRecentLocked()
	t.unrecorded = len(t.subs) > 0
	t.life.Add(1)
	t.newest.Store(log.Head())
	close(l.done)
	subscribers := len(t.subs)
	t.mu.Unlock()
	if subscribers > 0 {
		t.kick()
	}
	return true
}

var errClosing = errors.New("the node is shutting down")

// fail gives the topic up: whoever waits gets an error, and the next who asks begins anew.
func (t *topic) fail(err error) {
	t.part.forget(t)
	if t.part.hub.ctx.Err() == nil {
		t.part.hub.options.Logger.Error("a channel could not be loaded", "channel", t.name, "error", err)
	}
	t.mu.Lock()
	t.loading.err = push.ErrInternal.WithMessage("the channel could not be loaded")
	close(t.loading.done)
	t.mu.Unlock()
	t.end(push.UnsubscribeInsufficientState)
}

// hold keeps a live message back until the log is there.
func (l *loading) hold(m *broker.Message) {
	if len(l.held) >= heldMessages {
		l.missed, l.held = true, nil
	}
	if !l.missed {
		l.held = append(l.held, *m)
	}
}

func (p *partition) currentEpoch() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// epochChange waits until the partition's epoch is another than the one named.
func (p *partition) epochChange(ctx context.Context, epoch string) error {
	for {
		p.mu.Lock()
		if p.epoch != epoch {
			p.mu.Unlock()
			return nil
		}
		if p.waiting == nil {
			p.waiting = make(chan struct{})
		}
		wait := p.waiting
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("the broker answers for another life of the partition: %w", ctx.Err())
		}
	}
}
