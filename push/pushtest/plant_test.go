package pushtest_test

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// planted is a broker with one bug: a function that is set replaces the method.
type planted struct {
	broker.Broker
	open    func(context.Context, broker.Namespace) error
	publish func(context.Context, string, push.Publication, broker.PublishOptions) (push.Position, error)
	attach  func(context.Context, broker.Partition, broker.Follower) (broker.Attachment, error)
	load    func(context.Context, string, broker.LoadOptions, func(broker.Message) error) (broker.History, error)
	head    func(context.Context, broker.Partition) (push.Position, error)
	listen  func(context.Context, string, func([]byte)) (func(), error)
	tell    func(context.Context, string, []byte) error
	put     func(context.Context, broker.Lease, time.Duration) error
	list    func(context.Context, string) ([]broker.Lease, error)
}

func (p *planted) Open(ctx context.Context, ns broker.Namespace) error {
	if p.open != nil {
		return p.open(ctx, ns)
	}
	return p.Broker.Open(ctx, ns)
}

func (p *planted) Publish(ctx context.Context, c string, m push.Publication, o broker.PublishOptions) (push.Position, error) {
	if p.publish != nil {
		return p.publish(ctx, c, m, o)
	}
	return p.Broker.Publish(ctx, c, m, o)
}

func (p *planted) Attach(ctx context.Context, part broker.Partition, f broker.Follower) (broker.Attachment, error) {
	if p.attach != nil {
		return p.attach(ctx, part, f)
	}
	return p.Broker.Attach(ctx, part, f)
}

func (p *planted) Load(ctx context.Context, c string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
	if p.load != nil {
		return p.load(ctx, c, o, visit)
	}
	return p.Broker.Load(ctx, c, o, visit)
}

func (p *planted) Head(ctx context.Context, part broker.Partition) (push.Position, error) {
	if p.head != nil {
		return p.head(ctx, part)
	}
	return p.Broker.Head(ctx, part)
}

func (p *planted) Listen(ctx context.Context, node string, handle func([]byte)) (func(), error) {
	if p.listen != nil {
		return p.listen(ctx, node, handle)
	}
	return p.Broker.Listen(ctx, node, handle)
}

func (p *planted) Tell(ctx context.Context, node string, payload []byte) error {
	if p.tell != nil {
		return p.tell(ctx, node, payload)
	}
	return p.Broker.Tell(ctx, node, payload)
}

func (p *planted) PutLease(ctx context.Context, l broker.Lease, ttl time.Duration) error {
	if p.put != nil {
		return p.put(ctx, l, ttl)
	}
	return p.Broker.PutLease(ctx, l, ttl)
}

func (p *planted) ListLeases(ctx context.Context, prefix string) ([]broker.Lease, error) {
	if p.list != nil {
		return p.list(ctx, prefix)
	}
	return p.Broker.ListLeases(ctx, prefix)
}

// delivering plants a bug in the deliveries.
func delivering(change func(f broker.Follower, batch []broker.Message)) func(*planted) {
	return func(p *planted) {
		p.attach = func(ctx context.Context, part broker.Partition, f broker.Follower) (broker.Attachment, error) {
			return p.Broker.Attach(ctx, part, changed{f, change})
		}
	}
}

type changed struct {
	broker.Follower
	change func(f broker.Follower, batch []broker.Message)
}

func (c changed) Deliver(batch []broker.Message) { c.change(c.Follower, batch) }

// loading plants a bug in loads: the function changes the whole result.
func loading(change func(found []push.Publication, h *broker.History) []push.Publication) func(*planted) {
	return func(p *planted) {
		p.load = func(ctx context.Context, c string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
			var found []push.Publication
			h, err := p.Broker.Load(ctx, c, o, func(m broker.Message) error {
				found = append(found, m.Publication)
				return nil
			})
			for _, p := range change(found, &h) {
				if err == nil {
					err = visit(broker.Message{Channel: c, Publication: p})
				}
			}
			return h, err
		}
	}
}

// publishing plants a bug in publishes.
func publishing(change func(channel string, p *push.Publication, o *broker.PublishOptions) string) func(*planted) {
	return func(b *planted) {
		b.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			c = change(c, &p, &o)
			return b.Broker.Publish(ctx, c, p, o)
		}
	}
}
