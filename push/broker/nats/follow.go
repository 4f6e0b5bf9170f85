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
	silence    = 3 * heartbeat   // a consumer that sends nothing for so long counts as gone
	mostBatch  = 128             // how many messages are delivered at once
	retryAfter = 200 * time.Millisecond
)

// attachment is the registration of a follower with a partition. Its goroutine, run, owns a consumer on the stream and delivers its messages. If
// anything is wrong with the consumer (a message is missing, silence, another connection, another epoch), run drops it, looks at the partition,
// and continues with another consumer from the offset after the last one delivered.
type attachment struct {
	broker.WholePartition
	partition *partition // immutable, like all up to wrong
	follower  broker.Follower
	start     push.Position
	ctx       context.Context // ends with Detach or Close
	cancel    context.CancelFunc
	done      chan struct{} // closed when run has ended
	wrong     chan struct{} // holds one when the consumer has become unreliable

	// Only run uses the following.
	epoch    string
	last     uint64    // everything up to this offset was delivered
	received uint64    // how many messages the consumer has sent
	level    time.Time // everything published before this time was delivered, or reported as a gap
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

// trouble tells run that the consumer has become unreliable.
func (a *attachment) trouble() {
	select {
	case a.wrong <- struct{}{}:
	default:
	}
}

// errWrong means that a consumer has lost a message or was lost itself.
var errWrong = errors.New("the consumer is unreliable")

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
		a.partition.broker.opts.Logger.Warn("consumer restarted", "stream", a.partition.stream, "offset", a.last, "error", err)
		if !errors.Is(err, errWrong) {
			a.rest()
		}
	}
}

// rest waits for retryAfter, or until a connection has been made again.
func (a *attachment) rest() {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.partition.broker.whenBack():
	case <-a.ctx.Done():
	}
}

// renew looks at the partition, and resets the follower if the epoch has changed.
func (a *attachment) renew() error {
	select {
	case <-a.wrong: // the cause does not matter: look finds it
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

// consume makes a consumer and delivers its messages until something is wrong with it.
func (a *attachment) consume() error {
	p := a.partition
	in := newConsumerQueue()
	inbox := p.broker.reads.NewInbox()
	back, before := p.broker.whenBack(), p.view()
	if before.Epoch != a.epoch {
		return wrong("the epoch changed")
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
		return wrong("the epoch changed")
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
			return wrong("the epoch changed")
		case <-back: // the server may be another one, and messages on their way are lost
			return wrong("the connection was replaced")
		case <-quiet.C:
			return wrong("nothing received for %v", silence)
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
		return "", errWrong // if the consumer was made, the server deletes it after InactiveThreshold
	}
	if err != nil {
		return "", fmt.Errorf("create a consumer on %s: %w", a.partition.stream, err)
	}
	return c.CachedInfo().Name, nil
}

// dropConsumer deletes a consumer. If it fails, the server deletes the consumer after InactiveThreshold.
func (a *attachment) dropConsumer(name string) {
	b := a.partition.broker
	if !b.reads.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Second)
	defer cancel()
	_ = b.readsJS.DeleteConsumer(ctx, a.partition.stream, name)
}

// process delivers the received messages.
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

// control handles a status message of the consumer: an idle heartbeat, or a flow control request, which the server sends to learn that
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
			return wrong("%s messages sent, %d received", sent, a.received)
		}
		a.level = time.Now().Add(-heartbeat)
	}
	return nil
}

// message takes one publication into the batch.
func (a *attachment) message(m *nats.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("message without a stream position: %w", err)
	}
	if meta.Sequence.Consumer != a.received+1 {
		return wrong("message %d received after %d", meta.Sequence.Consumer, a.received)
	}
	a.received++
	p := a.partition
	if seq := meta.Sequence.Stream; seq > a.last+1 && a.isGap() {
		a.deliver()
		a.follower.Gap("", seq-1)
	}
	s := stored{subject: m.Subject, header: m.Header, data: m.Data, seq: meta.Sequence.Stream, time: meta.Timestamp}
	a.last = s.seq
	if meta.Timestamp.After(a.level) {
		a.level = meta.Timestamp
	}
	msg, err := p.decode(&s)
	if err != nil {
		p.broker.refused.Add(1)
		p.broker.opts.Logger.Warn("message skipped: not a publication", "stream", p.stream, "sequence", s.seq, "error", err)
		return nil
	}
	if msg.Op == push.Remove && !p.hasRemovals() { // another process removed the row
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

// isGap reports whether the follower may have needed one of the skipped messages. In a table only removals can be missing: skipped rows were
// replaced by newer ones, or by a clear, which are still to come. A removal is skipped only if it has expired, for which it has to be older than
// the history allows.
func (a *attachment) isGap() bool {
	p := a.partition
	if p.ns.Mode == push.Stream {
		return true
	}
	age := p.historyOf().Age
	return age > 0 && time.Since(a.level) > age
}

// deliver delivers the batch to the follower.
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
