package pushtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/pushtest"
)

// replaceable is a broker whose store can be lost while it is in use. From then on a second broker stores publications and serves the followers.
// Control messages and leases stay with the first.
type replaceable struct {
	planted
	second broker.Broker
	isLost bool
	isMute bool     // the second delivers nothing
	follow []func() // attach the followers of the first to the second

	reset func(f broker.Follower, start push.Position) // how a follower is reset
}

// Close closes both brokers.
func (r *replaceable) Close() error { return errors.Join(r.Broker.Close(), r.second.Close()) }

// current returns the broker that stores publications.
func (r *replaceable) current() broker.Broker {
	if r.isLost {
		return r.second
	}
	return r.Broker
}

// turning is a follower that is reset before the first delivery of the new epoch.
type turning struct {
	broker.Follower
	broker *replaceable
	told   chan struct{}
}

func (t turning) Deliver(batch []broker.Message) {
	<-t.told
	if !t.broker.isMute {
		t.Follower.Deliver(batch)
	}
}

// alternating is a follower of both brokers and of the reset between them. At any time, only one of them calls it.
type alternating struct {
	broker.Follower
	mu sync.Mutex
}

func (a *alternating) Deliver(batch []broker.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Follower.Deliver(batch)
}

func (a *alternating) Gap(channel string, offset uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Follower.Gap(channel, offset)
}

func (a *alternating) Advance(offset uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Follower.Advance(offset)
}

func (a *alternating) Reset(start push.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Follower.Reset(start)
}

// newReplaceable returns a harness with such a broker. If plants is not nil, it plants a bug in the broker.
func newReplaceable(t *testing.T, plant func(*replaceable)) pushtest.Harness {
	t.Helper()
	h, _ := open()
	r := &replaceable{planted: planted{Broker: h.Broker}, second: h.Recreate()}
	r.reset = func(f broker.Follower, start push.Position) { f.Reset(start) }
	r.open = func(ctx context.Context, ns broker.Namespace) error {
		return errors.Join(r.Broker.Open(ctx, ns), r.second.Open(ctx, ns))
	}
	r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
		return r.current().Publish(ctx, c, p, o)
	}
	r.load = func(ctx context.Context, c string, o broker.LoadOptions, visit func(broker.Message) error) (broker.History, error) {
		return r.current().Load(ctx, c, o, visit)
	}
	r.head = func(ctx context.Context, part broker.Partition) (push.Position, error) {
		return r.current().Head(ctx, part)
	}
	r.attach = func(ctx context.Context, part broker.Partition, follower broker.Follower) (broker.Attachment, error) {
		f := &alternating{Follower: follower}
		r.follow = append(r.follow, func() {
			told := make(chan struct{})
			defer close(told)
			if a, err := r.second.Attach(context.Background(), part, turning{f, r, told}); err != nil {
				t.Error(err)
			} else {
				r.reset(f, a.Start())
			}
		})
		return r.current().Attach(ctx, part, f)
	}
	if plant != nil {
		plant(r)
	}
	h.Broker, h.Recreate = r, nil
	h.Replace = func() {
		r.isLost = true
		for _, attach := range r.follow {
			attach()
		}
	}
	return h
}

var replaceBugs = []struct {
	name  string
	plant func(*replaceable)
}{
	{"followers are not told", func(r *replaceable) { r.reset = func(broker.Follower, push.Position) {} }},
	{"followers are told of the old epoch", func(r *replaceable) {
		r.reset = func(f broker.Follower, start push.Position) {
			old, _ := r.Broker.Head(context.Background(), broker.Partition{Namespace: "s"})
			f.Reset(old)
			f.Reset(start)
		}
	}},
	{"followers are given nothing more", func(r *replaceable) { r.isMute = true }},
	{"the epoch is the same", func(r *replaceable) {
		publish, epoch := r.publish, ""
		r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			pos, err := publish(ctx, c, p, o)
			if epoch == "" {
				epoch = pos.Epoch
			}
			pos.Epoch = epoch
			return pos, err
		}
	}},
	{"publishing does not work again", func(r *replaceable) {
		publish := r.publish
		r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			if r.isLost {
				return push.Position{}, errors.New("no such stream")
			}
			return publish(ctx, c, p, o)
		}
	}},
	{"loads what was lost", func(r *replaceable) { r.load = r.Broker.Load }},
	{"keys of idempotency are remembered", func(r *replaceable) {
		publish, known := r.publish, make(map[string]push.Position)
		r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			if pos, ok := known[o.IdempotencyKey]; ok {
				return pos, nil
			}
			pos, err := publish(ctx, c, p, o)
			if o.IdempotencyKey != "" {
				known[o.IdempotencyKey] = pos
			}
			return pos, err
		}
	}},
	{"control messages stop", func(r *replaceable) {
		r.tell = func(ctx context.Context, node string, payload []byte) error {
			if r.isLost {
				return nil
			}
			return r.Broker.Tell(ctx, node, payload)
		}
	}},
	{"leases stop", func(r *replaceable) {
		r.put = func(context.Context, broker.Lease, time.Duration) error { return errors.New("no such bucket") }
	}},
}

// TestPlantedReplace: the check detects a broker that does not recover from the loss of its store.
func TestPlantedReplace(t *testing.T) {
	for _, tt := range replaceBugs {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			complaints := pushtest.Complaints(t.Context(), "store lost while attached", 2*time.Second, newReplaceable(t, tt.plant))
			if len(complaints) == 0 {
				t.Error("the check did not complain")
			} else {
				t.Log(complaints[0])
			}
		})
	}
}
