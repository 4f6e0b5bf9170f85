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

// campaign is a load of concurrent publishers that continue whatever the broker answers, while a check disturbs the broker. Every publication
// has data of its own. Half of the publishers use idempotency keys and publish again until they get an acknowledgement; the others publish each
// once.
type campaign struct {
	*suite
	namespace string
	orders    chan struct{} // holds one value for each publication to make
	done      atomic.Int64  // number of publications that are not tried any more
	cancel    context.CancelFunc
	ended     sync.WaitGroup

	mu    sync.Mutex
	tried map[string]string // channel by data
	acked ledger
}

const (
	campaigners      = 4
	campaignChannels = 3
	campaignOrders   = 10_000 // more than any check orders
)

// begin starts a campaign in an open namespace. Its publishers wait for order.
func (s *suite) begin(namespace string) *campaign {
	ctx, cancel := context.WithCancel(s.ctx)
	c := &campaign{
		suite:     s,
		namespace: namespace,
		orders:    make(chan struct{}, campaignOrders),
		cancel:    cancel,
		tried:     make(map[string]string),
	}
	b := s.broker // publishers keep to this one after a crash
	for i := range campaigners {
		c.ended.Go(func() { c.publisher(ctx, b, i) })
	}
	return c
}

// publisher publishes to b, once for each order.
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

// try publishes once, and records the result.
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

// rest waits a moment, after an error, for the broker to recover. It reports whether the caller should continue.
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

// order lets the publishers make n more publications.
func (c *campaign) order(n int) {
	for range n {
		c.orders <- struct{}{}
	}
}

// await waits until n publications in all are acknowledged or given up.
func (c *campaign) await(n int) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d publications were tried", n), func() bool { return c.done.Load() >= int64(n) })
}

// end stops the campaign. Pending publications are given up.
func (c *campaign) end() {
	c.Helper()
	c.cancel()
	c.within("publish without time", c.ended.Wait)
}

// check compares the publications found after the end of a campaign with those made: every acknowledged one has to be there, none twice, and
// none that was never made. where says where they were found, and all are in the order of offsets.
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

// loaded returns the stored publications of the campaign's channels.
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

// again calls f until it succeeds.
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

// publishAgain publishes until that succeeds, with an idempotency key, so that one publication is stored.
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
