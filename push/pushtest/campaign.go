package pushtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// campaign is publishing by several at once that goes on whatever the broker answers, while something happens to it. Every publication
// has data of its own. Of the publishers half use idempotency keys and publish again until that is acknowledged; the others
// publish each once.
type campaign struct {
	*suite
	namespace string
	orders    chan struct{} // one for each publication to make
	done      atomic.Int64  // publications that are not tried any more
	cancel    context.CancelFunc
	ended     sync.WaitGroup

	mu    sync.Mutex
	tried map[string]string // channel by data
	acked ledger
}

const (
	campaigners      = 4
	campaignChannels = 3
	campaignOrders   = 10_000 // more than any check gives
)

// begin begins a campaign in a namespace that is open. Nothing is published before it is ordered.
func (s *suite) begin(namespace string) *campaign {
	ctx, cancel := context.WithCancel(s.ctx)
	c := &campaign{
		suite:     s,
		namespace: namespace,
		orders:    make(chan struct{}, campaignOrders),
		cancel:    cancel,
		tried:     make(map[string]string),
	}
	b := s.broker // not its successor after a crash
	for i := range campaigners {
		c.ended.Go(func() { c.publisher(ctx, b, i) })
	}
	return c
}

// publisher publishes to b as ordered.
func (c *campaign) publisher(ctx context.Context, b broker.Broker, publisher int) {
	for i := 0; ; i++ {
		select {
		case <-c.orders:
		case <-ctx.Done():
			return
		}
		var opts broker.PublishOptions
		if publisher%2 == 0 {
			opts.IdempotencyKey = fmt.Sprintf("key %d/%d", publisher, i)
		}
		channel, data := fmt.Sprintf("%s:%d", c.namespace, i%campaignChannels), fmt.Sprintf("%d/%d", publisher, i)
		for {
			if err := c.try(ctx, b, channel, data, opts); err == nil || opts.IdempotencyKey == "" {
				break
			}
			if !rest(ctx) {
				return
			}
		}
		c.done.Add(1)
	}
}

// try publishes once.
func (c *campaign) try(ctx context.Context, b broker.Broker, channel, data string, opts broker.PublishOptions) error {
	c.mu.Lock()
	c.tried[data] = channel
	c.mu.Unlock()
	p := push.Publication{Data: []byte(data)}
	pos, err := b.Publish(ctx, channel, p, opts)
	if err != nil {
		rest(ctx)
		return err
	}
	p.Offset = pos.Offset
	c.acked.add(broker.Message{Channel: channel, Publication: p})
	return nil
}

// rest leaves a broker that answers with errors a moment to recover. It reports whether to go on.
func rest(ctx context.Context) bool {
	moment := time.NewTimer(2 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-moment.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// order has n more publications made.
func (c *campaign) order(n int) {
	for range n {
		c.orders <- struct{}{}
	}
}

// await waits until n publications in all are not tried any more.
func (c *campaign) await(n int) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d publications were tried", n), func() bool { return c.done.Load() >= int64(n) })
}

// end ends the campaign: what is under way is given up.
func (c *campaign) end() {
	c.Helper()
	c.cancel()
	c.within("publish without time", c.ended.Wait)
}

// check complains unless what is there of a campaign that has ended, as where says, is all that was acknowledged, and nothing
// that was not published, and nothing twice. all are in the order of offsets.
func (c *campaign) check(where string, all []broker.Message) {
	c.Helper()
	byData := make(map[string]uint64)
	byOffset := make(map[uint64]*broker.Message)
	for i := range all {
		m := &all[i]
		data := string(m.Data)
		if channel, isKnown := c.tried[data]; !isKnown || channel != m.Channel {
			c.Errorf("%s: %s was never published there", where, describe(m))
		}
		if before, isThere := byData[data]; isThere {
			c.Errorf("%s: %s is there twice, at offset %d too", where, describe(m), before)
		}
		byData[data], byOffset[m.Offset] = m.Offset, m
	}
	missing := 0
	for _, m := range c.acked.ordered() {
		if found := byOffset[m.Offset]; found != nil && found.Channel == m.Channel && same(&found.Publication, &m.Publication) {
			continue
		}
		missing++
		if missing <= 3 {
			c.Errorf("%s: %s was acknowledged and is not there", where, describe(&m))
		}
	}
	if missing > 0 {
		c.Errorf("%s: %d publications are missing of those acknowledged", where, missing)
	}
}

// loaded returns all that is kept of the campaign's channels.
func (c *campaign) loaded() []broker.Message {
	c.Helper()
	var all ledger
	for i := range campaignChannels {
		channel := fmt.Sprintf("%s:%d", c.namespace, i)
		publications, _ := c.load(channel)
		for _, p := range publications {
			all.add(broker.Message{Channel: channel, Publication: p})
		}
	}
	return all.ordered()
}

// again does something until it succeeds.
func (s *suite) again(what string, f func() error) {
	s.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		if !rest(s.ctx) {
			s.Fatalf("%s: it never came to that: %v", what, err)
		}
	}
}

// publishAgain publishes until that succeeds, with an idempotency key so that it is done once.
func (s *suite) publishAgain(channel, data string) (broker.Message, push.Position) {
	s.Helper()
	p := push.Publication{Data: []byte(data)}
	var pos push.Position
	s.again("publish", func() (err error) {
		pos, err = s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{IdempotencyKey: "again " + data})
		return err
	})
	p.Offset = pos.Offset
	return broker.Message{Channel: channel, Publication: p}, pos
}
