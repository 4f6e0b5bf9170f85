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
	// janitorPeriod is how often a hub looks after what time changes, unless there are so many channels that looking at all of them takes more
	// than one part in janitorShare of the time.
	janitorPeriod = time.Second
	janitorShare  = 25
	// slimRounds is in which of its rounds the janitor takes back what streams keep beyond their namespace's history.
	slimRounds = 4
)

func nowMillis() int64 { return time.Now().UnixMilli() }

// janitor forgets what is too old and gives up channels that nobody uses.
func (h *Hub) janitor() {
	due := time.NewTimer(janitorPeriod)
	defer due.Stop()
	var b budget
	round := 0
	for {
		select {
		case <-h.ctx.Done():
			return
		case now := <-due.C:
			round++
			h.sweep(now.UnixMilli(), round%slimRounds == 0)
			b.enforce(h)
			due.Reset(max(janitorPeriod, janitorShare*time.Since(now)))
		}
	}
}

// renewer renews leases. It is not the janitor's work, which must go on when the broker does not answer.
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

// sweep is one round of the janitor.
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

// drop gives up a topic unless somebody took hold of it after all, and reports whether it did.
func (p *partition) drop(t *topic) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics[t.name] != t || t.holds.Load() != 0 {
		return false
	}
	delete(p.topics, t.name)
	return true
}

func (h *Hub) renew(ctx context.Context) {
	if err := h.announce(ctx); err != nil {
		h.options.Logger.Warn("the node could not be announced", "error", err)
	}
	h.keepPresent(ctx)
}

// probeNamespace holds the channel through which hubs check themselves. Configuration cannot name it, and callers cannot reach it. It is one channel for all: a
// broker keeps the newest publication of each for ever.
const (
	probeNamespace = "$sluice"
	probeChannel   = probeNamespace + ":ready"
)

// Ready publishes through the broker and reports whether something comes back through the fan-out before ctx ends. Errors are
// *push.Error.
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
		return push.ErrInternal.WithMessage("a publication did not come through the fan-out in time")
	}
}

// probe is the carrier and the encoder of the hub's own sessions: it notes that something came.
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
