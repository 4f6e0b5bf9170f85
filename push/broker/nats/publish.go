package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// headerReserve is how many bytes a message may have besides its size as counted by push.Publication.Size.
const headerReserve = 64 << 10

// mostStored is the largest message that is sent. A file store of NATS refuses records above 32 MiB, with an error that looks temporary. A
// record is a little larger than its message.
const mostStored = 32<<20 - 1<<10

func (p *partition) publish(ctx context.Context, m *broker.Message, idempotencyKey string) (push.Position, error) {
	if size, most := m.Size(), p.broker.opts.MaxPublication; size > most {
		return push.Position{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", broker.ErrTooLarge, size, most)
	}
	msg, err := p.encode(m, idempotencyKey)
	if err != nil {
		return push.Position{}, err
	}
	most := int64(mostStored)
	if n := p.broker.conn.MaxPayload(); n > 0 {
		most = min(most, n)
	}
	if size := int64(msg.Size()); size > most {
		return push.Position{}, fmt.Errorf("%w: message of %d bytes, the server accepts %d", broker.ErrTooLarge, size, most)
	}
	failed := p.broker.failure()
	if isClosed(failed) {
		p.broker.wake()
		return push.Position{}, fmt.Errorf("%w: %s cannot write: %s", broker.ErrBusy, p.broker.where(), p.broker.whyFailed())
	}
	if m.Op == push.Remove && !p.hasRemovals() {
		if err := p.noteRemoval(ctx); err != nil {
			return push.Position{}, err
		}
	}
	if p.ns.Durable {
		if err := p.broker.enterRoom(ctx, m.Op, msg.Size()); err != nil {
			return push.Position{}, err
		}
	}
	if err := p.enter(ctx, msg.Subject); err != nil {
		return push.Position{}, err
	}
	before := p.view()
	future, err := p.broker.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		p.window.leave(msg.Subject)
		return push.Position{}, p.notSent(err)
	}
	asked := p.broker.connections()
	select {
	case ack := <-future.Ok():
		at := push.Position{Epoch: before.Epoch, Offset: ack.Sequence}
		p.acknowledged(m, msg.Subject, at, ack.Duplicate)
		offset := at.Offset
		if ack.Duplicate {
			offset = 0
		}
		return at, p.confirm(ctx, before, asked, offset)
	case err := <-future.Err():
		p.window.leave(msg.Subject)
		return push.Position{}, p.refused(err)
	case <-failed:
		err = fmt.Errorf("%s could not write: %s", p.broker.where(), p.broker.whyFailed())
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.broker.ctx.Done():
		err = broker.ErrClosed
	}
	p.abandon(m, before.Epoch, future)
	return push.Position{}, err
}

// abandon waits for the answer to a publication after its publisher has stopped waiting.
func (p *partition) abandon(m *broker.Message, epoch string, future jetstream.PubAckFuture) {
	p.broker.mu.RLock()
	defer p.broker.mu.RUnlock()
	if p.broker.partitions.IsClosed() {
		return
	}
	p.broker.running.Go(func() {
		select {
		case ack := <-future.Ok():
			p.acknowledged(m, future.Msg().Subject, push.Position{Epoch: epoch, Offset: ack.Sequence}, ack.Duplicate)
		case <-future.Err():
			p.window.leave(future.Msg().Subject)
		case <-p.broker.ctx.Done():
		}
	})
}

// enter takes a place in the window. If there is none, it waits.
func (p *partition) enter(ctx context.Context, subject string) error {
	wait := p.window.enter(subject)
	if wait == nil {
		return nil
	}
	timer := time.NewTimer(max(p.broker.opts.PublishWait, 0))
	defer timer.Stop()
	for ; wait != nil; wait = p.window.enter(subject) {
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.broker.ctx.Done():
			return broker.ErrClosed
		case <-timer.C:
			return fmt.Errorf("%w: too many publications in flight for %v", broker.ErrBusy, p.broker.opts.PublishWait)
		}
	}
	return nil
}

// acknowledged notes that a publication is stored. A duplicate was stored before, and leaves the window at once.
func (p *partition) acknowledged(m *broker.Message, subject string, at push.Position, isDuplicate bool) {
	if isDuplicate {
		p.window.leave(subject)
		return
	}
	p.learn(at)
	if p.ns.Durable && m.Op == push.Set && p.broker.full.Load() {
		p.broker.full.Store(false)
	}
	var then func()
	if m.Op == push.Clear && p.ns.Mode == push.Table {
		then = func() { p.purge(m.Channel, at.Offset) }
	}
	p.window.acknowledged(subject, at, then)
}

// purge deletes the rows from before a clear to free their space. Nothing depends on its success: these rows are not shown any more.
func (p *partition) purge(channel string, before uint64) {
	p.broker.mu.RLock()
	defer p.broker.mu.RUnlock()
	if p.broker.partitions.IsClosed() {
		return
	}
	p.broker.running.Go(func() {
		ctx, cancel := p.broker.timed(p.broker.ctx)
		defer cancel()
		s, err := p.broker.js.Stream(ctx, p.stream)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(filter(p.prefix, p.ns.Mode, channel)), jetstream.WithPurgeSequence(before))
		}
		if err != nil {
			p.broker.opts.Logger.Debug("cleared rows not purged", "channel", channel, "error", err)
		}
	})
}

// notSent translates the error of a message that was not sent.
func (p *partition) notSent(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return broker.ErrClosed
	case isUnconnected(err), errors.Is(err, nats.ErrDisconnected):
		return fmt.Errorf("%w: no connection to %s", broker.ErrBusy, p.broker.where())
	}
	return fmt.Errorf("send to %s: %w", p.broker.where(), err)
}

// Codes of JetStream for a message that is larger than a stream allows, and for a store that is full.
const (
	codeTooLarge    = 10054
	codeHeaderLarge = 10097
	codeStoreFailed = 10077
	codeNoResources = 10023
	codeMemoryFull  = 10028
	codeStorageFull = 10047
)

// space tells an operator what to do if a store is full.
const space = "no space left in its store: free disk space, raise its limit, or shorten histories"

// refused translates the error of a publication that was not acknowledged. If it is an answer of the server, nothing was stored. Without an
// answer, the publication may be stored.
func (p *partition) refused(err error) error {
	var api *jetstream.APIError
	switch {
	case p.broker.ctx.Err() != nil:
		return broker.ErrClosed
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		p.broker.wake()
		return fmt.Errorf("%w: no server at %s holds stream %s", broker.ErrBusy, p.broker.where(), p.stream)
	case errors.As(err, &api) && isTooLarge(api):
		return fmt.Errorf("%w: %s", broker.ErrTooLarge, api.Description)
	case errors.As(err, &api) && isFull(api.ErrorCode):
		p.broker.full.Store(true)
		p.broker.wake()
		return fmt.Errorf("%w: %s refused the publication, %s (%s)", broker.ErrBusy, p.broker.where(), space, api.Description)
	case errors.As(err, &api):
		p.broker.wake()
		return fmt.Errorf("%w: %s refused the publication: %s", broker.ErrBusy, p.broker.where(), api.Description)
	case errors.Is(err, nats.ErrDisconnected):
		return fmt.Errorf("the connection to %s was lost before it answered: %w", p.broker.where(), err)
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		p.broker.wake() // a server with a full disk does not answer
		return fmt.Errorf("%s did not answer in time: %w", p.broker.where(), err)
	}
	return fmt.Errorf("%s: %w", p.broker.where(), err)
}

// isTooLarge reports whether a message was refused for its size, so that a retry is useless. A store reports that in the text only.
func isTooLarge(e *jetstream.APIError) bool {
	return e.ErrorCode == codeTooLarge || e.ErrorCode == codeHeaderLarge ||
		e.ErrorCode == codeStoreFailed && strings.Contains(e.Description, "message too large")
}

// isFull reports whether a refusal is for lack of space.
func isFull(code jetstream.ErrorCode) bool {
	return code == codeNoResources || code == codeMemoryFull || code == codeStorageFull
}
