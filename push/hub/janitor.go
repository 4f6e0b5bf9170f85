package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

const (
	// janitorPeriod is the time between two sweeps of the janitor. If there are so many channels that a sweep takes longer than one part in
	// janitorShare of the period, the period is longer: janitorShare times the duration of the sweep.
	janitorPeriod = time.Second
	janitorShare  = 25
	// slimSweeps is how many sweeps make one in which streams forget the entries beyond their namespace's history.
	slimSweeps = 4
)

// janitor expires old entries, drops unused channels and enforces the budget of the logs, until the hub is closed.
func (h *Hub) janitor() {
	due := time.NewTimer(janitorPeriod)
	defer due.Stop()
	var b budget
	sweeps := 0
	for {
		select {
		case <-h.ctx.Done():
			return
		case now := <-due.C:
			sweeps++
			h.sweep(now.UnixMilli(), sweeps%slimSweeps == 0)
			b.enforce(h)
			due.Reset(max(janitorPeriod, janitorShare*time.Since(now)))
		}
	}
}

// renewer renews the leases of the node and its clients, until the hub is closed. It has a goroutine of its own, because the janitor must go on
// when the broker does not answer.
func (h *Hub) renewer() {
	period := max(h.options.PresenceTTL/3, time.Millisecond)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(h.ctx, h.options.PresenceTTL)
			h.renew(ctx)
			cancel()
		}
	}
}

// sweep looks at all channels once: it expires old entries and drops unused channels. With isSlimming, streams also forget the entries beyond
// their namespace's history. now is in Unix milliseconds.
func (h *Hub) sweep(now int64, isSlimming bool) {
	var unused []*topic
	for _, n := range h.namespaces {
		for _, p := range n.partitions {
			for _, t := range p.list() {
				if n.History.Age > 0 {
					t.expire(now)
				}
				if isSlimming && n.Mode == push.Stream {
					t.slim()
				}
				if t.holds.Load() > 0 {
					continue
				}
				if now-t.used.Load() < max(h.options.Linger, 0).Milliseconds() {
					unused = append(unused, t)
				} else {
					p.drop(t)
				}
			}
		}
	}
	if more := len(unused) - h.options.UnusedChannels; h.options.UnusedChannels >= 0 && more > 0 {
		slices.SortFunc(unused, func(a, b *topic) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
		for _, t := range unused[:more] {
			t.part.drop(t)
		}
	}
}

// drop removes a topic from the partition unless the topic has a hold again, and reports whether it did.
func (p *partition) drop(t *topic) bool {
	p.mu.Lock()
	if p.topics[t.name] != t || t.holds.Load() != 0 {
		p.mu.Unlock()
		return false
	}
	delete(p.topics, t.name)
	p.mu.Unlock()
	t.unwant()
	return true
}

func (h *Hub) renew(ctx context.Context) {
	if err := h.announce(ctx); err != nil {
		h.options.Logger.Warn("node announcement failed", "error", err)
	}
	h.keepPresent(ctx)
}

// probeNamespace holds the channel through which hubs check themselves. Configuration cannot name it, and callers cannot reach it. All nodes share
// one channel, because a broker keeps the newest publication of each channel for ever.
const (
	probeNamespace = "@sluice"
	probeChannel   = probeNamespace + ":ready"
)

// Ready checks the hub end to end: it publishes through the broker and waits until a publication arrives through the fan-out. It returns an
// error if ctx ends first. Errors are *push.Error.
func (h *Hub) Ready(ctx context.Context) error {
	came := make(probe, 1)
	client := "probe-" + rand.Text()
	s, err := h.Connect(came, came, SessionOptions{Info: push.ClientInfo{Client: client}})
	if err != nil {
		return err
	}
	defer s.Close()
	n := h.namespaces[probeNamespace]
	if err := s.subscribe(ctx, n, SubscribeRequest{Channel: probeChannel}, func(Subscribed) error { return nil }); err != nil {
		return err
	}
	if _, err := h.publish(ctx, n, probeChannel, push.Publication{Data: []byte("1")}, ""); err != nil {
		return err
	}
	select {
	case <-came:
		return nil
	case <-ctx.Done():
		return push.ErrInternal.WithMessage("the fan-out did not deliver the probe in time")
	}
}

// probe is the carrier and the encoder of the sessions of Ready. It receives a value when a frame arrives.
type probe chan struct{}

func (p probe) TryWrite(frames []Frame) int {
	select {
	case p <- struct{}{}:
	default:
	}
	return len(frames)
}

func (probe) Disconnect(push.Disconnect) {}

func (probe) FrameBytes() int { return 0 }

func (probe) AppendPublications(dst []byte, _ Address, _ []channel.Delivery) []byte { return dst }

func (probe) AppendUnsubscribe(dst []byte, _ string, _ push.Unsubscribe) []byte { return dst }
