package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"

	nats "github.com/nats-io/nats.go"

	"github.com/sluice-push/sluice/push/broker"
)

// The subjects of control messages: to all nodes, and to one, before its name.
const (
	controlAll  = "sluice.control.all"
	controlNode = "sluice.control.node."
)

// controlQueue is how many control messages may wait for a listener. A listener with a full queue misses the next message.
const controlQueue = 8192

// listener is the state of one Listen.
type listener struct {
	broker *Broker
	subs   []*nats.Subscription
	queue  chan *nats.Msg // of both subscriptions, so that the messages of one caller arrive in order
	quit   chan struct{}
	once   sync.Once
	done   chan struct{} // closed when the goroutine has ended
}

// Listen calls handle for the control messages to node and to all nodes. A listener whose queue of 8192 messages is full misses further ones.
// Messages that are sent while the connection is lost are missed.
func (b *Broker) Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error) {
	if err := b.usable(ctx); err != nil {
		return nil, fmt.Errorf("nats: listen: %w", err)
	}
	l := &listener{
		broker: b, queue: make(chan *nats.Msg, controlQueue), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := l.subscribe(ctx, node); err != nil {
		l.unsubscribe()
		return nil, fmt.Errorf("nats: listen: %w", b.closedOr(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.partitions.IsClosed() {
		l.unsubscribe()
		return nil, fmt.Errorf("nats: listen: %w", broker.ErrClosed)
	}
	b.listeners[l] = struct{}{}
	go l.run(handle)
	return l.stop, nil
}

func (l *listener) subscribe(ctx context.Context, node string) error {
	own := string(appendToken([]byte(controlNode), node))
	if len(own) > mostSubject {
		return fmt.Errorf("%w: the ID of the node takes %d bytes, at most %d are allowed", broker.ErrTooLarge, len(own), mostSubject)
	}
	for _, subject := range []string{controlAll, own} {
		sub, err := l.broker.conn.ChanSubscribe(subject, l.queue)
		if err != nil {
			return err
		}
		l.subs = append(l.subs, sub)
	}
	ctx, cancel := l.broker.timed(ctx)
	defer cancel()
	return l.broker.conn.FlushWithContext(ctx) // messages that are sent from now on arrive
}

func (l *listener) unsubscribe() {
	for _, sub := range l.subs {
		_ = sub.Unsubscribe()
	}
}

func (l *listener) run(handle func(payload []byte)) {
	defer close(l.done)
	for {
		select {
		case <-l.quit:
			return
		default:
		}
		select {
		case m := <-l.queue:
			handle(m.Data)
		case <-l.quit:
			return
		}
	}
}

// stop ends the listener.
func (l *listener) stop() {
	l.once.Do(func() {
		l.unsubscribe()
		close(l.quit)
		l.broker.mu.Lock()
		delete(l.broker.listeners, l)
		l.broker.mu.Unlock()
	})
	<-l.done
}

// mostSubject is how long the subject of a control message may be. A server ends the connection of a client that sends it a longer line: of 4 KiB by
// default (max_control_line).
const mostSubject = 1 << 10

// Tell sends a control message, and does not wait for the listeners. Without a connection it returns [broker.ErrBusy]. The message to a node whose ID
// no node can have is lost, as that to a node that does not exist.
func (b *Broker) Tell(ctx context.Context, node string, payload []byte) error {
	if err := b.usable(ctx); err != nil {
		return fmt.Errorf("nats: tell: %w", err)
	}
	subject := controlAll
	if node != "" {
		subject = string(appendToken([]byte(controlNode), node))
	}
	if len(subject) > mostSubject {
		return nil
	}
	err := b.conn.Publish(subject, payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("nats: tell: %w: %d bytes, the server accepts %d", broker.ErrTooLarge, len(payload), b.conn.MaxPayload())
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("nats: tell: %w", broker.ErrClosed)
	case isUnconnected(err):
		return fmt.Errorf("nats: tell: %w: no connection to %s", broker.ErrBusy, b.where())
	}
	return fmt.Errorf("nats: tell: %w", err)
}
