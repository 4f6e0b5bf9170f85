package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

const (
	heartbeat  = 2 * time.Second // of an idle consumer
	silence    = 3 * heartbeat   // after that a consumer is taken to be gone
	mostBatch  = 128             // messages that are delivered at once
	retryAfter = 200 * time.Millisecond
)

// attachment is a follower's hold on a partition. Its goroutine, run, owns a consumer on the stream and delivers what it sends. When
// anything is wrong with that (a message is missing, silence, another connection, another life) it throws the consumer away, looks
// at the partition, and goes on with another from the offset after the last one delivered.
type attachment struct {
	partition *partition // set when made, like all up to wrong
	follower  broker.Follower
	start     push.Position
	ctx       context.Context // ends with Detach or Close
	cancel    context.CancelFunc
	done      chan struct{} // closed when run has ended
	wrong     chan struct{} // holds one when the consumer is not to be trusted any more

	// Owned by run.
	epoch    string
	last     uint64    // everything up to here was delivered
	received uint64    // by the consumer's count
	level    time.Time // what was published before this was delivered, or told by a gap
	clock    int64     // the latest time of a publication
	batch    []broker.Message
}

func newAttachment(p *partition, f broker.Follower, start push.Position) *attachment {
	a := &attachment{
		partition: p, follower: f, start: start, done: make(chan struct{}), wrong: make(chan struct{}, 1),
		epoch: start.Epoch, last: start.Offset, level: time.Now(),
	}
	a.ctx, a.cancel = context.WithCancel(p.broker.ctx)
	return a
}

// Start implements broker.Attachment.
func (a *attachment) Start() push.Position { return a.start }

// Detach implements broker.Attachment.
func (a *attachment) Detach() {
	a.cancel()
	<-a.done
}

// trouble says that the consumer is not to be trusted any more.
func (a *attachment) trouble() {
	select {
	case a.wrong <- struct{}{}:
	default:
	}
}

// errWrong ends a consumer that lost something or was lost itself.
var errWrong = errors.New("the consumer is not to be trusted any more")

func wrong(why string, args ...any) error {
	return fmt.Errorf("%w: %s", errWrong, fmt.Sprintf(why, args...))
}

func (a *attachment) run() {
	defer close(a.done)
	defer a.partition.forget(a)
	defer a.cancel()
	for {
		err := a.renew()
		if err == nil {
			err = a.consume()
		}
		if a.ctx.Err() != nil {
			return
		}
		a.partition.broker.opts.Logger.Warn("a partition is followed anew", "stream", a.partition.stream, "after", a.last, "error", err)
		if !errors.Is(err, errWrong) {
			a.rest()
		}
	}
}

// rest waits a little, or until the server is there again.
func (a *attachment) rest() {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.partition.broker.whenBack():
	case <-a.ctx.Done():
	}
}

// renew looks at the partition and resets the follower if it has a new life.
func (a *attachment) renew() error {
	select {
	case <-a.wrong: // whatever it was, it is looked at now
	default:
	}
	at, err := a.partition.look(a.ctx)
	if err != nil {
		return err
	}
	if at.Epoch != a.epoch {
		a.epoch, a.last = at.Epoch, at.Offset
		a.follower.Reset(at)
		a.partition.window.delivered(a, at.Offset)
	}
	return nil
}

// consume follows the stream by a consumer until something is wrong with it.
func (a *attachment) consume() error {
	p := a.partition
	in := newIntake()
	inbox := p.broker.reads.NewInbox()
	back, before := p.broker.whenBack(), p.view()
	if before.Epoch != a.epoch {
		return wrong("a new life began")
	}
	sub, err := subscribe(p.broker.reads, inbox, in.add)
	if err != nil {
		return err
	}
	var gone sync.WaitGroup
	defer gone.Wait()
	gone.Add(1)
	sub.SetClosedHandler(func(string) { gone.Done() })
	defer func() { _ = sub.Unsubscribe() }()
	name, err := a.makeConsumer(inbox)
	if err != nil {
		return err
	}
	defer a.dropConsumer(name)
	if err := p.confirm(a.ctx, before, p.broker.connections(), 0); errors.Is(err, errNewLife) {
		return wrong("a new life began")
	} else if err != nil {
		return err
	}
	a.received = 0
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	var msgs []*nats.Msg
	for {
		select {
		case <-in.wake:
		case <-a.wrong:
			return wrong("a new life began")
		case <-back: // the server may be another one, and what was on its way is lost
			return wrong("the connection is another one")
		case <-quiet.C:
			return wrong("nothing came for %v", silence)
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
		msgs = in.take(msgs)
		if err := a.process(msgs); err != nil {
			return err
		}
		quiet.Reset(silence)
	}
}

func (a *attachment) makeConsumer(inbox string) (string, error) {
	ctx, cancel := a.partition.broker.unlessBack(a.ctx)
	defer cancel()
	c, err := a.partition.broker.readsJS.CreatePushConsumer(ctx, a.partition.stream, jetstream.ConsumerConfig{
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       a.last + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		FlowControl:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: time.Minute,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if errors.Is(context.Cause(ctx), errReconnected) {
		return "", errWrong // if there is a consumer, it goes by itself
	}
	if err != nil {
		return "", fmt.Errorf("make a consumer on %s: %w", a.partition.stream, err)
	}
	return c.CachedInfo().Name, nil
}

// dropConsumer deletes a consumer. One that cannot be deleted goes by itself when nobody listens to it.
func (a *attachment) dropConsumer(name string) {
	b := a.partition.broker
	if !b.reads.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Second)
	defer cancel()
	_ = b.readsJS.DeleteConsumer(ctx, a.partition.stream, name)
}

// process delivers what came.
func (a *attachment) process(msgs []*nats.Msg) error {
	defer func() { clear(a.batch[:cap(a.batch)]) }()
	for _, m := range msgs {
		var err error
		if m.Header != nil && len(m.Data) == 0 && m.Header.Get("Status") == "100" {
			a.deliver()
			err = a.control(m)
		} else {
			err = a.message(m)
		}
		if err != nil || a.ctx.Err() != nil {
			a.deliver()
			return errors.Join(err, a.ctx.Err())
		}
	}
	a.deliver()
	return nil
}

// control handles what the server says about the consumer: that there is nothing to send, or that it waits to hear that
// everything up to here was taken.
func (a *attachment) control(m *nats.Msg) error {
	reply := m.Reply
	if reply == "" {
		reply = value(m.Header, "Nats-Consumer-Stalled")
	}
	if reply != "" {
		if err := a.partition.broker.reads.Publish(reply, nil); err != nil {
			return fmt.Errorf("flow control: %w", err)
		}
	}
	if sent := value(m.Header, "Nats-Last-Consumer"); sent != "" {
		if sent != strconv.FormatUint(a.received, 10) {
			return wrong("%s messages were sent, %d have come", sent, a.received)
		}
		a.level = time.Now().Add(-heartbeat)
	}
	return nil
}

// message takes one publication into the batch.
func (a *attachment) message(m *nats.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("a message without its place in the stream: %w", err)
	}
	if meta.Sequence.Consumer != a.received+1 {
		return wrong("message %d came after %d", meta.Sequence.Consumer, a.received)
	}
	a.received++
	p := a.partition
	if seq := meta.Sequence.Stream; seq > a.last+1 && a.isGap() {
		a.deliver()
		a.follower.Gap(seq - 1)
	}
	s := stored{subject: m.Subject, header: m.Header, data: m.Data, seq: meta.Sequence.Stream, time: meta.Timestamp}
	a.last = s.seq
	if meta.Timestamp.After(a.level) {
		a.level = meta.Timestamp
	}
	msg, err := p.decode(&s)
	if err != nil {
		p.broker.refused.Add(1)
		p.broker.opts.Logger.Warn("a message is no publication and was left out", "stream", p.stream, "sequence", s.seq, "error", err)
		return nil
	}
	if msg.Op == push.Remove && !p.hasRemovals() { // somebody else removed it
		if err := p.noteRemoval(a.ctx); err != nil {
			a.last = s.seq - 1 // it comes again
			return err
		}
	}
	a.clock = max(a.clock, msg.Time) // the clock of the server may go back
	msg.Time = a.clock
	a.batch = append(a.batch, msg)
	if len(a.batch) >= mostBatch {
		a.deliver()
	}
	return nil
}

// isGap reports whether what was skipped may be something that the follower needed. Of a table only removals may be: rows are skipped
// when newer ones have replaced them, or a clear has, which are still to come. And a removal is skipped only when it has expired, for
// which it has to be older than the history.
func (a *attachment) isGap() bool {
	p := a.partition
	if p.ns.Mode == push.Stream {
		return true
	}
	age := p.historyOf().Age
	return age > 0 && time.Since(a.level) > age
}

// deliver gives the follower the batch.
func (a *attachment) deliver() {
	if len(a.batch) > 0 && a.ctx.Err() == nil {
		p := a.partition
		p.learn(push.Position{Epoch: a.epoch, Offset: a.batch[len(a.batch)-1].Offset})
		a.follower.Deliver(a.batch)
	}
	if a.ctx.Err() == nil {
		a.partition.window.delivered(a, a.last)
	}
	a.batch = a.batch[:0]
}
