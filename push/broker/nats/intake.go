package nats

import (
	"sync"

	nats "github.com/nats-io/nats.go"
)

// consumerQueue is a queue of the messages of a subscription. Its reader takes all of them at once. It needs no bound of its own, because the flow
// control of a consumer, or the size of a batch, bounds the sender.
type consumerQueue struct {
	wake chan struct{} // holds one when there may be messages

	mu   sync.Mutex
	msgs []*nats.Msg // guarded by mu
}

func newConsumerQueue() *consumerQueue { return &consumerQueue{wake: make(chan struct{}, 1)} }

// add queues a message. It is the subscription's handler.
func (q *consumerQueue) add(m *nats.Msg) {
	q.mu.Lock()
	q.msgs = append(q.msgs, m)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the queued messages. Their successors go to spare, which may be nil.
func (q *consumerQueue) take(spare []*nats.Msg) []*nats.Msg {
	clear(spare)
	q.mu.Lock()
	defer q.mu.Unlock()
	msgs := q.msgs
	q.msgs = spare[:0]
	return msgs
}

// subscribe makes a subscription without limits on the client side.
func subscribe(conn *nats.Conn, subject string, handler nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := conn.Subscribe(subject, handler)
	if err != nil {
		return nil, err
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	return sub, nil
}
