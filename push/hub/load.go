package hub

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/channel"
)

// heldMessages is how many live messages are held back while a topic is loading. If more arrive, the topic is read again.
const heldMessages = 8192

// loading is the load of a topic that is under way, or that failed. The topic's lock guards it.
type loading struct {
	done   chan struct{}    // closed at its end
	err    error            // why it failed; set before done is closed
	held   []broker.Message // arrived while the log was read
	missed bool             // the log has to be read again: more arrived than are held, or there was a gap
}

func newLoading() *loading { return &loading{done: make(chan struct{})} }

// wait waits until the topic is loaded, loading fails, or ctx ends.
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

// load reads the log from the broker and appends the messages that arrived meanwhile.
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
	if err := t.want(ctx); err != nil {
		t.fail(err)
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

// read returns a log with everything that the broker keeps of the channel.
func (t *topic) read(ctx context.Context) (*channel.Log, error) {
	p := t.part
	for {
		p.mu.Lock()
		epoch := p.epoch
		p.mu.Unlock()
		log := channel.New(&p.namespace.policy, push.Position{Epoch: epoch}, 0)
		found, err := p.hub.broker.Load(ctx, t.name, broker.LoadOptions{}, func(m broker.Message) error {
			log.AppendRetagged(m.Publication, m.Retag)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if found.Epoch == epoch {
			log.Loaded(found.Head, found.Floor)
			return log, nil
		}
		// The partition began a new epoch. Its follower may not know of it yet.
		if t.ended.Load() != nil {
			return nil, errors.New("the channel was reset to a new epoch")
		}
		if err := p.epochChange(ctx, epoch); err != nil {
			return nil, err
		}
	}
}

// join installs log as the topic's log, after it has appended the messages held back meanwhile. It reports false if the log has to be read again.
func (t *topic) join(log *channel.Log) bool {
	t.mu.Lock()
	l := t.loading
	if l.missed {
		l.missed, l.held = false, nil
		t.mu.Unlock()
		return false
	}
	for i := range l.held {
		log.AppendRetagged(l.held[i].Publication, l.held[i].Retag)
	}
	t.log, t.loading, t.shrunk = log, nil, nil
	t.keepChangesLocked()
	t.forgetRecentLocked()
	t.unrecorded = len(t.subs) > 0
	t.generation.Add(1)
	t.newest.Store(log.Head())
	close(l.done)
	subscribers := len(t.subs)
	t.mu.Unlock()
	if subscribers > 0 {
		t.serve()
	}
	return true
}

var errClosing = errors.New("the node is shutting down")

// fail gives the topic up. The callers of wait get an error, all subscriptions end, and the next acquire of the channel makes a new topic.
func (t *topic) fail(err error) {
	t.part.forget(t)
	if t.part.hub.ctx.Err() == nil {
		t.part.hub.options.Logger.Error("channel load failed", "channel", t.name, "error", err)
	}
	t.mu.Lock()
	t.loading.err = push.ErrInternal.WithMessage("the channel could not be loaded")
	close(t.loading.done)
	t.mu.Unlock()
	t.end(push.UnsubscribeInsufficientState)
}

// hold keeps a live message back until the log is read.
func (l *loading) hold(m *broker.Message) {
	if len(l.held) >= heldMessages {
		l.missed, l.held = true, nil
	}
	if !l.missed {
		l.held = append(l.held, *m)
	}
}

// epochChange waits until the partition has another epoch than the given one.
func (p *partition) epochChange(ctx context.Context, epoch string) error {
	if err := p.await(ctx, func() bool { return p.epoch != epoch }); err != nil {
		return fmt.Errorf("the broker reports another epoch of the partition: %w", err)
	}
	return nil
}
