package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
)

// anywhere is the Partition of what belongs to none.
var anywhere broker.Partition

// Listen implements broker.Control. While no hub can be reached, control messages are missed.
func (b *Broker) Listen(ctx context.Context, node string, handle func(payload []byte)) (stop func(), err error) {
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	listening, cancel := context.WithCancel(b.ctx)
	begun, ended := make(chan error, 1), make(chan struct{})
	stop = func() {
		cancel()
		<-ended
	}
	if !b.start(func() {
		defer close(ended)
		b.listen(listening, node, handle, begun)
	}) {
		cancel()
		return nil, broker.ErrClosed
	}
	limit := time.NewTimer(b.options.Timeout)
	defer limit.Stop()
	select {
	case err = <-begun:
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("%w: no hub can be reached", broker.ErrBusy)
	case <-b.ctx.Done():
		err = broker.ErrClosed
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// listen keeps a Listen stream open.
func (b *Broker) listen(ctx context.Context, node string, handle func([]byte), begun chan<- error) {
	isFirst := true
	first := sync.OnceFunc(func() {
		isFirst = false
		begun <- nil
	})
	pause := retryAfter
	begin := func() {
		first()
		pause = retryAfter
	}
	for ctx.Err() == nil {
		err := b.try(ctx, anywhere, true, func(ctx context.Context, c *conn) error { return c.listen(ctx, node, handle, begin) })
		if ctx.Err() != nil {
			return
		}
		if isFirst && !isAway(err, true) {
			begun <- wire.CallError(ctx, err)
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// listen calls begin when the hub listens, and then handle for every control message.
func (c *conn) listen(ctx context.Context, node string, handle func([]byte), begin func()) error {
	stream, err := c.stream(ctx, wire.Listen, wire.AppendText(nil, node))
	if err != nil {
		return err
	}
	defer stream.Close()
	var payload []byte
	for n := 0; ; n++ {
		if err := stream.Receive(&payload); err != nil {
			if errors.Is(err, io.EOF) {
				err = errMoved
			}
			return err
		}
		if n == 0 {
			begin()
			continue
		}
		handle(payload)
	}
}

func (b *Broker) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.table.IsClosed() {
		return broker.ErrClosed
	}
	return nil
}

// Tell implements broker.Control.
func (b *Broker) Tell(ctx context.Context, node string, payload []byte) error {
	return b.ask(ctx, false, wire.Tell, wire.AppendTell(nil, node, payload))
}

// ask makes a call at any hub.
func (b *Broker) ask(ctx context.Context, again bool, method string, body []byte) error {
	return b.call(ctx, anywhere, again, func(ctx context.Context, c *conn) error {
		_, err := c.do(ctx, method, body)
		return err
	})
}

// PutLease implements broker.Leases.
func (b *Broker) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	return b.ask(ctx, true, wire.PutLease, wire.AppendLease(nil, l, ttl))
}

// DropLease implements broker.Leases.
func (b *Broker) DropLease(ctx context.Context, key string) error {
	return b.ask(ctx, true, wire.DropLease, wire.AppendText(nil, key))
}

// ListLeases implements broker.Leases.
func (b *Broker) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	var all []broker.Lease
	err := b.call(ctx, anywhere, true, func(ctx context.Context, c *conn) error {
		stream, err := c.stream(ctx, wire.ListLeases, wire.AppendText(nil, prefix))
		if err != nil {
			return err
		}
		defer stream.Close()
		var body []byte
		for all = nil; ; {
			if err := stream.Receive(&body); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if all, _, err = wire.ParseLeases(body, all); err != nil {
				return err
			}
		}
	})
	return all, err
}
