package nats

import (
	"sync"

	nats "github.com/nats-io/nats.go"
)

// intake gathers what a subscription receives, so that who reads it can take all that has come at once. What is in it is bounded by
// the sender: by the flow control of a consumer, by the size of a batch.
type intake struct {
	wake chan struct{} // holds one when there may be something

	mu   sync.Mutex
	msgs []*nats.Msg // guarded by mu
}

func newIntake() *intake { return &intake{wake: make(chan struct{}, 1)} }

// add is the subscription's handler.
func (q *intake) add(m *nats.Msg) {
	q.mu.Lock()
	q.msgs = append(q.msgs, m)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what has come; spare, which may be nil, is used for what comes next.
func (q *intake) take(spare []*nats.Msg) []*nats.Msg {
	clear(spare)
	q.mu.Lock()
	defer q.mu.Unlock()
	msgs := q.msgs
	q.msgs = spare[:0]
	return msgs
}

// subscribe makes a subscription that is not bounded here.
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
