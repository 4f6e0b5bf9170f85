package pushtest_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/pushtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a broker of the kind that the suite is made for.
func open() (pushtest.Harness, *pushtest.Clock) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	renew := func() broker.Broker {
		return memory.New(&memory.Options{Now: clock.Now, MaxPublication: 10_000, Queue: 16, PublishWait: time.Second})
	}
	return pushtest.Harness{Broker: renew(), MaxPublication: 10_000, Advance: clock.Advance, Recreate: renew}, clock
}

// TestPlantedBugs is a mutation test of the suite: for each planted bug, its check has to fail.
func TestPlantedBugs(t *testing.T) {
	for _, tt := range slices.Concat(deliveryBugs, loadBugs, publishBugs, otherBugs) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, _ := open()
			plant := func(b broker.Broker) broker.Broker {
				p := &planted{Broker: b}
				tt.plant(p)
				return p
			}
			renew := h.Recreate
			h.Broker, h.Recreate = plant(h.Broker), func() broker.Broker { return plant(renew()) }
			complaints := pushtest.Complaints(t.Context(), tt.check, 2*time.Second, h)
			if len(complaints) == 0 {
				t.Errorf("%q did not complain", tt.check)
			} else {
				t.Log(complaints[0])
			}
		})
	}
}

// TestNoPlantedBug shows that the same checks pass without a bug.
func TestNoPlantedBug(t *testing.T) {
	harnesses := map[string]func() pushtest.Harness{ // for the checks that need more than a broker
		"restart":                   func() pushtest.Harness { return restartable(t, nil) },
		"rows/outlive their age":    func() pushtest.Harness { return restartable(t, nil) },
		"crash":                     func() pushtest.Harness { return crashable(t, nil) },
		"older copy of the store":   func() pushtest.Harness { return rewindable(t, nil) },
		"store lost while attached": func() pushtest.Harness { return newReplaceable(t, nil) },
		"cut/publications":          func() pushtest.Harness { return cuttable(nil) },
		"cut/services":              func() pushtest.Harness { return cuttable(nil) },
	}
	for _, name := range pushtest.CheckNames() {
		h, _ := open()
		h.Broker = &planted{Broker: h.Broker}
		if other := harnesses[name]; other != nil {
			h = other()
		}
		if complaints := pushtest.Complaints(t.Context(), name, pushtest.Patience, h); len(complaints) > 0 {
			t.Errorf("%q complains: %s", name, strings.Join(complaints, "\n"))
		}
	}
}

// TestGapIsNoBug: a broker that does not hold back publishers may report a gap to a slow follower.
func TestGapIsNoBug(t *testing.T) {
	h, _ := open()
	p := &planted{Broker: h.Broker}
	delivering(func(f broker.Follower, batch []broker.Message) {
		n := max(len(batch)-5, 0)
		if n > 0 {
			f.Gap("", batch[n-1].Offset)
		}
		f.Deliver(batch[n:])
	})(p)
	h.Broker = p
	if complaints := pushtest.Complaints(t.Context(), "slow follower of little", pushtest.Patience, h); len(complaints) > 0 {
		t.Error(strings.Join(complaints, "\n"))
	}
}

// bug is a bug with the check that has to detect it.
type bug struct {
	name, check string
	plant       func(*planted)
}

var deliveryBugs = []bug{
	{"loses a message", "order", delivering(func(f broker.Follower, batch []broker.Message) {
		f.Deliver(slices.DeleteFunc(slices.Clone(batch), func(m broker.Message) bool { return m.Offset%97 == 0 }))
	})},
	{"delivers twice", "order", delivering(func(f broker.Follower, batch []broker.Message) {
		f.Deliver(batch)
		if batch[0].Offset > 20 {
			f.Deliver(batch)
		}
	})},
	{"delivers backwards", "two followers", delivering(func(f broker.Follower, batch []broker.Message) {
		backwards := slices.Clone(batch)
		slices.Reverse(backwards)
		f.Deliver(backwards)
	})},
	{"delivers on several goroutines", "order", delivering(func(f broker.Follower, batch []broker.Message) {
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() { f.Deliver(batch) })
		}
		wait.Wait()
	})},
	{"drops tags", "round trip", delivering(func(f broker.Follower, batch []broker.Message) {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Tags = nil
		}
		f.Deliver(batch)
	})},
	{"drops what a slow follower has no room for", "slow follower", delivering(func(f broker.Follower, batch []broker.Message) {
		f.Deliver(batch[:min(len(batch), 8)])
	})},
	{"drops what was evicted", "slow follower of little", delivering(func(f broker.Follower, batch []broker.Message) {
		f.Deliver(batch[max(len(batch)-5, 0):])
	})},
	{"tells of a gap too late", "slow follower of little", delivering(func(f broker.Follower, batch []broker.Message) {
		n := max(len(batch)-5, 0)
		f.Deliver(batch[n:])
		if n > 0 {
			f.Gap("", batch[n-1].Offset)
		}
	})},
	{"tells of half a gap", "slow follower of little", delivering(func(f broker.Follower, batch []broker.Message) {
		n := max(len(batch)-5, 0)
		if n > 1 {
			f.Gap("", batch[n-2].Offset)
		}
		f.Deliver(batch[n:])
	})},
	{"detaches without waiting", "detach", func(p *planted) {
		p.attach = func(ctx context.Context, part broker.Partition, f broker.Follower) (broker.Attachment, error) {
			a, err := p.Broker.Attach(ctx, part, f)
			return hasty{a}, err
		}
	}},
	{"starts too early", "order", func(p *planted) {
		p.attach = func(ctx context.Context, part broker.Partition, f broker.Follower) (broker.Attachment, error) {
			a, err := p.Broker.Attach(ctx, part, f)
			return early{a}, err
		}
	}},
}

type hasty struct{ broker.Attachment }

func (h hasty) Detach() { go h.Attachment.Detach() }

type early struct{ broker.Attachment }

func (e early) Start() push.Position {
	start := e.Attachment.Start()
	start.Offset /= 2
	return start
}

var loadBugs = []bug{
	{"floor 0", "history/random/stream", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Floor = 0
		return found
	})},
	{"floor 0 for tables", "history/random/table", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Floor = 0
		return found
	})},
	{"floor at the head", "history/unlimited", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Floor = h.Head
		return found
	})},
	{"head too high", "join/stream", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Head += 7
		return found
	})},
	{"head too low", "join/stream", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Head = max(h.Head, 14) - 14
		return found
	})},
	{"reads late", "load what was delivered/stream", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		if n := len(found); n > 0 && found[n-1].Offset == h.Head {
			h.Head--
			return found[:n-1]
		}
		return found
	})},
	{"leaves out the newest row", "load what was delivered/table", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		if n := len(found); n > 0 && found[n-1].Offset == h.Head {
			return found[:n-1]
		}
		return found
	})},
	{"no removals", "rows/newest", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
		return slices.DeleteFunc(found, func(p push.Publication) bool { return p.Op == push.Remove })
	})},
	{"only the newest half", "history/random/stream", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
		return found[len(found)/2:]
	})},
	{"rows age", "rows/never age", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		return slices.DeleteFunc(found, func(p push.Publication) bool { return p.Offset+100 < h.Head })
	})},
	{"rows age in real time", "rows/outlive their age", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		return slices.DeleteFunc(found, func(p push.Publication) bool { return p.Offset+4 < h.Head })
	})},
	{"removals stay", "rows/outlive their age", func(p *planted) {
		p.open = func(ctx context.Context, ns broker.Namespace) error {
			ns.History.Age = 0
			return p.Broker.Open(ctx, ns)
		}
	}},
	{"the floor says nothing of age", "rows/outlive their age", func(p *planted) {
		loading(func(found []push.Publication, h *broker.History) []push.Publication {
			h.Floor = 0
			return found
		})(p)
	}},
	{"by key, not by offset", "rows/newest", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
		slices.SortFunc(found, func(a, b push.Publication) int { return strings.Compare(a.Key, b.Key) })
		return found
	})},
	{"another epoch", "positions", loading(func(found []push.Publication, h *broker.History) []push.Publication {
		h.Epoch += "'"
		return found
	})},
	{"time is lost", "round trip", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
		for i := range found {
			found[i].Time = 0
		}
		return found
	})},
	{"error of visit is swallowed", "load ends with visit", func(p *planted) {
		p.load = func(ctx context.Context, c string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
			return p.Broker.Load(ctx, c, o, func(m broker.Message) error {
				_ = visit(m)
				return nil
			})
		}
	}},
}

var publishBugs = []bug{
	{"ignores clear", "clear/table", publishing(func(c string, p *push.Publication, _ *broker.PublishOptions) string {
		if p.Op == push.Clear {
			p.Op = push.Set
		}
		return c
	})},
	{"ignores keys of idempotency", "idempotency/keys", publishing(func(c string, _ *push.Publication, o *broker.PublishOptions) string {
		o.IdempotencyKey = ""
		return c
	})},
	{"keys of idempotency without case", "idempotency/keys", publishing(func(c string, _ *push.Publication, o *broker.PublishOptions) string {
		o.IdempotencyKey = strings.ToLower(o.IdempotencyKey)
		return c
	})},
	{"dots in channels", "names", publishing(func(c string, _ *push.Publication, _ *broker.PublishOptions) string {
		return strings.ReplaceAll(c, ".", "_")
	})},
	{"spaces in keys", "names", publishing(func(c string, p *push.Publication, _ *broker.PublishOptions) string {
		p.Key = strings.TrimSpace(p.Key)
		return c
	})},
	{"no client info", "round trip", publishing(func(c string, p *push.Publication, _ *broker.PublishOptions) string {
		p.Info = nil
		return c
	})},
	{"data as text", "round trip", publishing(func(c string, p *push.Publication, _ *broker.PublishOptions) string {
		p.Data = bytes.ToValidUTF8(p.Data, nil)
		return c
	})},
	{"stores what it refuses", "slow follower", func(b *planted) {
		b.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			pos, err := b.Broker.Publish(ctx, c, p, o)
			if err == nil && pos.Offset%13 == 0 {
				return push.Position{}, broker.ErrBusy
			}
			return pos, err
		}
	}},
	{"forgets the context", "cancelled", func(b *planted) {
		b.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			return b.Broker.Publish(context.WithoutCancel(ctx), c, p, o)
		}
	}},
	{"remembers idempotency for ever", "idempotency/window", func(b *planted) {
		known := make(map[string]push.Position)
		b.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			if pos, ok := known[o.IdempotencyKey]; ok {
				return pos, nil
			}
			pos, err := b.Broker.Publish(ctx, c, p, o)
			known[o.IdempotencyKey] = pos
			return pos, err
		}
	}},
	{"one partition is another", "partitions", publishing(func(c string, _ *push.Publication, _ *broker.PublishOptions) string {
		return c + "'"
	})},
	{"too large is cut", "too large", publishing(func(c string, p *push.Publication, _ *broker.PublishOptions) string {
		p.Data, p.Tags, p.Key = p.Data[:min(len(p.Data), 10_000)], nil, ""
		return c
	})},
}

var otherBugs = []bug{
	{"same epoch in every life", "lost store", func(p *planted) {
		p.head = func(context.Context, broker.Partition) (push.Position, error) { return push.Position{Epoch: "e"}, nil }
	}},
	{"takes durable namespaces", "settings", func(p *planted) {
		p.open = func(ctx context.Context, ns broker.Namespace) error {
			ns.Durable = false
			return p.Broker.Open(ctx, ns)
		}
	}},
	{"opens what is unknown", "unknown", func(p *planted) {
		p.load = func(ctx context.Context, c string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
			_ = p.Broker.Open(ctx, broker.Namespace{Name: push.Namespace(c), Partitions: 1})
			return p.Broker.Load(ctx, c, o, visit)
		}
	}},
	{"keeps the payload", "control/addresses", func(p *planted) {
		kept := make(chan func(), 1000)
		p.tell = func(ctx context.Context, node string, payload []byte) error {
			kept <- func() { _ = p.Broker.Tell(ctx, node, payload) }
			if node == "node-a" && len(payload) == 0 {
				for len(kept) > 0 {
					(<-kept)()
				}
			}
			return nil
		}
	}},
	{"tells all", "control/addresses", func(p *planted) {
		p.tell = func(ctx context.Context, _ string, payload []byte) error { return p.Broker.Tell(ctx, "", payload) }
	}},
	{"does not stop listening", "control/stop", func(p *planted) {
		p.listen = func(ctx context.Context, node string, handle func([]byte)) (func(), error) {
			_, err := p.Broker.Listen(ctx, node, handle)
			return func() {}, err
		}
	}},
	{"handles at once", "control/addresses", func(p *planted) {
		p.listen = func(ctx context.Context, node string, handle func([]byte)) (func(), error) {
			var running sync.WaitGroup
			stop, err := p.Broker.Listen(ctx, node, func(payload []byte) {
				payload = bytes.Clone(payload)
				running.Go(func() { handle(payload) })
				if len(payload) == 0 {
					running.Wait()
				}
			})
			return func() { stop(); running.Wait() }, err
		}
	}},
	{"leases in any order", "leases/list", func(p *planted) {
		p.list = func(ctx context.Context, prefix string) ([]broker.Lease, error) {
			l, err := p.Broker.ListLeases(ctx, prefix)
			slices.Reverse(l)
			return l, err
		}
	}},
	{"leases do not end", "leases/clock", func(p *planted) {
		p.put = func(ctx context.Context, l broker.Lease, ttl time.Duration) error {
			return p.Broker.PutLease(ctx, l, 100*ttl)
		}
	}},
	{"leases cannot be renewed", "leases/expire", func(p *planted) {
		p.put = func(ctx context.Context, l broker.Lease, ttl time.Duration) error {
			if known, _ := p.Broker.ListLeases(ctx, l.Key); len(known) > 0 {
				return nil
			}
			return p.Broker.PutLease(ctx, l, ttl)
		}
	}},
}
