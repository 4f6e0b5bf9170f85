package pushtest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/pushtest"
)

// remote is a broker whose connection can be cut. After a cut some publishes fail, and half of these are stored all the same. A publication that
// is repeated with its key is stored once.
type remote struct {
	planted
	cuts    atomic.Int64 // how often it was cut
	failing atomic.Int64 // how many more publishes have to fail
}

var errConnection = errors.New("the connection was lost")

// cuttable returns a harness with a broker whose connection can be cut. If plants is not nil, it plants a bug in the broker.
func cuttable(plant func(*remote)) pushtest.Harness {
	h, _ := open()
	r := &remote{planted: planted{Broker: h.Broker}}
	r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
		left := r.failing.Add(-1)
		if left >= 0 && left%2 == 0 {
			return push.Position{}, errConnection
		}
		pos, err := r.Broker.Publish(ctx, c, p, o)
		if left >= 0 {
			return push.Position{}, errConnection
		}
		return pos, err
	}
	r.tell = func(ctx context.Context, node string, payload []byte) error {
		if r.failing.Add(-1) >= 0 {
			return errConnection
		}
		return r.Broker.Tell(ctx, node, payload)
	}
	if plant != nil {
		plant(r)
	}
	h.Broker = r
	h.Cut = func() {
		r.cuts.Add(1)
		r.failing.Store(9)
	}
	return h
}

// afterCut plants a bug in the first delivery after each cut.
func afterCut(change func(f broker.Follower, batch []broker.Message)) func(*remote) {
	return func(r *remote) {
		var seen atomic.Int64
		delivering(func(f broker.Follower, batch []broker.Message) {
			if cuts := r.cuts.Load(); seen.Swap(cuts) != cuts {
				change(f, batch)
				return
			}
			f.Deliver(batch)
		})(&r.planted)
	}
}

// spoiled plants a bug in a publish that fails.
func spoiled(publish func(r *remote, c string, p push.Publication) (push.Position, error)) func(*remote) {
	return func(r *remote) {
		r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
			if r.failing.Add(-1) >= 0 {
				return publish(r, c, p)
			}
			return r.Broker.Publish(ctx, c, p, o)
		}
	}
}

// TestPlantedCuts: the checks detect a broker that does not recover from the loss of its connection.
func TestPlantedCuts(t *testing.T) {
	tests := []struct {
		name, check string
		plant       func(*remote)
	}{
		{"loses a message", "cut/publications", afterCut(func(f broker.Follower, batch []broker.Message) {
			if len(batch) > 1 {
				f.Deliver(batch[1:])
			}
		})},
		{"delivers again", "cut/publications", afterCut(func(f broker.Follower, batch []broker.Message) {
			f.Deliver(batch)
			f.Deliver(batch)
		})},
		{"tells of a gap", "cut/publications", afterCut(func(f broker.Follower, batch []broker.Message) {
			f.Gap("", batch[0].Offset)
			f.Deliver(batch)
		})},
		{"tells of a reset", "cut/publications", afterCut(func(f broker.Follower, batch []broker.Message) {
			f.Reset(push.Position{Epoch: "another", Offset: batch[0].Offset - 1})
			f.Deliver(batch)
		})},
		{"publishes again by itself", "cut/publications", spoiled(func(r *remote, c string, p push.Publication) (push.Position, error) {
			_, _ = r.Broker.Publish(context.Background(), c, p, broker.PublishOptions{})
			return r.Broker.Publish(context.Background(), c, p, broker.PublishOptions{})
		})},
		{"acknowledges what it lost", "cut/publications", spoiled(func(r *remote, c string, _ push.Publication) (push.Position, error) {
			return r.Broker.Head(context.Background(), broker.Partition{Namespace: push.Namespace(c)})
		})},
		{"never comes back", "cut/publications", func(r *remote) {
			r.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
				if r.cuts.Load() > 3 {
					return push.Position{}, errConnection
				}
				return r.Broker.Publish(ctx, c, p, o)
			}
		}},
		{"does not listen any more", "cut/services", func(r *remote) {
			r.listen = func(ctx context.Context, node string, handle func([]byte)) (func(), error) {
				return r.Broker.Listen(ctx, node, func(payload []byte) {
					if r.cuts.Load() < 2 {
						handle(payload)
					}
				})
			}
		}},
		{"forgets leases", "cut/services", func(r *remote) {
			r.list = func(ctx context.Context, prefix string) ([]broker.Lease, error) {
				leases, err := r.Broker.ListLeases(ctx, prefix)
				return slices.DeleteFunc(leases, func(l broker.Lease) bool { return l.Key == "kept" }), err
			}
		}},
		{"leases never end", "cut/services", func(r *remote) {
			r.put = func(ctx context.Context, l broker.Lease, ttl time.Duration) error {
				return r.Broker.PutLease(ctx, l, 1000*ttl)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			complaints := pushtest.Complaints(t.Context(), tt.check, 2*time.Second, cuttable(tt.plant))
			if len(complaints) == 0 {
				t.Error("the check did not complain")
			} else {
				t.Log(complaints[0])
			}
		})
	}
}
