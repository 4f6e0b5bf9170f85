package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/link/wire"
	"github.com/sluice-push/sluice/rpc"
)

// advanceEvery is how often a gateway is told how far the partition is, while only channels are published to that it does not want.
const advanceEvery = 10 * time.Millisecond

// following is a Follow stream: its queue, and its attachment to the partition.
type following struct {
	queue      *queue
	attachment broker.Attachment

	changing sync.Mutex // held while interest changes
}

// follow sends what happens in a partition. It returns when the gateway or the server ends it.
func (s *Server) follow(ctx context.Context, c *rpc.Call, send func([]byte) error) error {
	var in wire.FollowRequest
	if err := in.Parse(c.Body()); err != nil {
		return err
	}
	f, away := &following{queue: newQueue(s.options.QueueBytes)}, s.whenAway()
	var err error
	if f.attachment, err = s.broker.Attach(ctx, in.Partition, f.queue); err != nil {
		return err
	}
	defer f.attachment.Detach()
	if err := s.add(in.ID, f); err != nil {
		return err
	}
	defer s.remove(in.ID)
	start := f.attachment.Start()
	f.queue.begin(start)
	if err := send(wire.AppendStart(nil, wire.Start, start)); err != nil {
		return err
	}
	return f.run(ctx, away, c.Stopping(), send)
}

func (s *Server) add(id string, f *following) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[id] != nil {
		return errors.New("link: a stream has this ID already")
	}
	s.streams[id] = f
	return nil
}

func (s *Server) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

// run sends what the queue has.
func (f *following) run(ctx context.Context, away, stopping <-chan struct{}, send func([]byte) error) error {
	var (
		spare []item
		body  []byte
		quiet <-chan time.Time // set after an event that has no more than an offset
	)
	for {
		items, upTo, skipped := f.queue.take(spare, quiet == nil)
		var err error
		switch {
		case len(items) > 0:
			body, err = sendItems(items, upTo, body, send)
			clear(items)
			spare = items[:0]
		case skipped:
			err = send(wire.AppendSkipped(nil, upTo))
		case upTo > 0:
			err = send(wire.AppendBatch(body[:0], upTo))
			quiet = time.After(advanceEvery)
		default:
			select {
			case <-f.queue.wake:
			case <-quiet:
				quiet = nil
			case <-away:
				return wire.ErrAway
			case <-stopping:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

// sendItems sends events, with messages in batches. upTo is the offset up to which everything wanted has been sent after them; 0: that of the last
// message. It returns the memory of the bodies. A message that is too large for a frame becomes a gap.
func sendItems(items []item, upTo uint64, body []byte, send func([]byte) error) ([]byte, error) {
	told := uint64(0)
	for first := 0; first < len(items); {
		it := &items[first]
		last := first + 1
		switch it.kind {
		case wire.Gap:
			body = wire.AppendGap(body[:0], it.message.Channel, it.message.Offset)
		case wire.Reset:
			body = wire.AppendStart(body[:0], wire.Reset, it.start)
		default:
			last = batchEnd(items, first)
			if told = items[last-1].message.Offset; last == len(items) {
				told = max(told, upTo)
			}
			body = wire.AppendBatch(body[:0], told)
			for i := first; i < last; i++ {
				body = wire.AppendMessage(body, &items[i].message)
			}
		}
		err := send(body)
		if rpc.CodeOf(err) == rpc.TooLarge && it.kind == wire.Batch && last == first+1 {
			told = 0
			body = wire.AppendGap(body[:0], it.message.Channel, it.message.Offset)
			err = send(body)
		}
		if err != nil {
			return body, err
		}
		first = last
	}
	if upTo > told { // the last event was no Batch
		body = wire.AppendBatch(body[:0], upTo)
		return body, send(body)
	}
	return body, nil
}

// batchEnd returns the end of the batch that begins with an item.
func batchEnd(items []item, first int) int {
	last := first + 1
	for size := items[first].size; last < len(items) && items[last].kind == wire.Batch; last++ {
		if size += items[last].size; size > wire.BatchBytes {
			break
		}
	}
	return last
}

// interest changes which channels a Follow stream sends.
func (s *Server) interest(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	var in wire.InterestRequest
	if err := in.Parse(c.Body()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	f := s.streams[in.ID]
	s.mu.Unlock()
	if f == nil {
		return nil, rpc.Errorf(wire.CodeNoStream, "link: there is no such stream")
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	var added []string
	for _, channel := range in.Want {
		if f.queue.wants(channel) {
			continue
		}
		err := push.CheckChannel(channel)
		if err == nil {
			err = f.attachment.Want(ctx, channel)
		}
		if err != nil {
			for _, channel := range added {
				f.attachment.Unwant(channel)
			}
			return nil, fmt.Errorf("%q: %w", channel, err)
		}
		added = append(added, channel)
	}
	var dropped []string
	for _, channel := range in.Unwant {
		if f.queue.wants(channel) {
			dropped = append(dropped, channel)
			f.attachment.Unwant(channel)
		}
	}
	return wire.AppendOffset(dst, f.queue.change(added, dropped, in.Resume)), nil
}

// publish publishes for a gateway.
func (s *Server) publish(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
	key, m, err := wire.ParsePublish(c.Body())
	if err != nil {
		return nil, err
	}
	if err := push.CheckChannel(m.Channel); err != nil {
		return nil, err
	}
	if err := push.CheckKey(m.Key); err != nil {
		return nil, err
	}
	at, err := s.broker.Publish(ctx, m.Channel, m.Publication, broker.PublishOptions{IdempotencyKey: key})
	if err != nil {
		return nil, err
	}
	return wire.AppendPosition(dst, at), nil
}

// load sends what the broker keeps of a channel.
func (s *Server) load(ctx context.Context, c *rpc.Call, send func([]byte) error) error {
	var in wire.LoadRequest
	if err := in.Parse(c.Body()); err != nil {
		return err
	}
	if err := push.CheckChannel(in.Channel); err != nil {
		return err
	}
	body := wire.AppendLoad(nil)
	begin := len(body)
	h, err := s.broker.Load(ctx, in.Channel, in.Options, func(m broker.Message) error {
		if m.Offset <= in.After {
			return nil
		}
		if len(body) > begin && len(body)+m.Size()+messageBytes > wire.BatchBytes {
			if err := send(body); err != nil {
				return err
			}
			body = body[:begin]
		}
		body = wire.AppendMessage(body, &m)
		return nil
	})
	if err != nil {
		return err
	}
	if len(body) > begin {
		if err := send(body); err != nil {
			return err
		}
	}
	return send(wire.AppendHistory(body[:0], h))
}
