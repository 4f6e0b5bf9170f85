package pushtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/pushtest"
)

// rewindable returns a harness with a broker and a copy of it. Publications go to both until the snapshot, and only to the broker afterwards.
// The copy has its own epoch. If plants is not nil, it plants a bug in the copy.
func rewindable(t *testing.T, plant func(*planted)) pushtest.Harness {
	t.Helper()
	h, _ := open()
	now, older := h.Broker, h.Recreate()
	t.Cleanup(func() {
		if err := errors.Join(now.Close(), older.Close()); err != nil {
			t.Error(err)
		}
	})
	isCopied := false
	both := &planted{Broker: now}
	both.open = func(ctx context.Context, ns broker.Namespace) error {
		return errors.Join(now.Open(ctx, ns), older.Open(ctx, ns))
	}
	both.publish = func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
		if !isCopied {
			if _, err := older.Publish(ctx, c, p, o); err != nil {
				return push.Position{}, err
			}
		}
		return now.Publish(ctx, c, p, o)
	}
	h.Broker, h.Durable, h.Recreate = newDisk(both), true, nil
	h.Snapshot = func() { isCopied = true }
	h.Rewind = func() broker.Broker {
		p := &planted{Broker: older}
		if plant != nil {
			plant(p)
		}
		return newDisk(p)
	}
	h.Reopen = func() broker.Broker { return newDisk(older) }
	return h
}

// TestPlantedRewind: the check detects a broker that does not notice the older copy.
func TestPlantedRewind(t *testing.T) {
	tests := []struct {
		name  string
		plant func(*planted)
	}{
		{"nothing is left", loading(func([]push.Publication, *broker.History) []push.Publication { return nil })},
		{"the removals are gone", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
			return found[:min(len(found), 1)]
		})},
		{"heads of another epoch", func(p *planted) {
			p.head = func(ctx context.Context, part broker.Partition) (push.Position, error) {
				pos, err := p.Broker.Head(ctx, part)
				pos.Epoch += "'"
				return pos, err
			}
		}},
		{"another epoch after every restart", func(p *planted) {
			p.head = func(ctx context.Context, part broker.Partition) (push.Position, error) {
				pos, err := p.Broker.Head(ctx, part)
				pos.Epoch += "'"
				return pos, err
			}
			p.publish = func(ctx context.Context, c string, m push.Publication, o broker.PublishOptions) (push.Position, error) {
				pos, err := p.Broker.Publish(ctx, c, m, o)
				pos.Epoch += "'"
				return pos, err
			}
			p.attach = func(ctx context.Context, part broker.Partition, f broker.Follower) (broker.Attachment, error) {
				a, err := p.Broker.Attach(ctx, part, f)
				return renamed{a}, err
			}
			loading(func(found []push.Publication, h *broker.History) []push.Publication {
				h.Epoch += "'"
				return found
			})(p)
		}},
		{"a key of what was lost", func(p *planted) {
			p.publish = func(ctx context.Context, c string, m push.Publication, o broker.PublishOptions) (push.Position, error) {
				if o.IdempotencyKey == "key" {
					return p.Broker.Head(ctx, broker.Partition{Namespace: push.Namespace(c)})
				}
				return p.Broker.Publish(ctx, c, m, o)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			complaints := pushtest.Complaints(t.Context(), "older copy of the store", 2*time.Second, rewindable(t, tt.plant))
			if len(complaints) == 0 {
				t.Error("the check did not complain")
			} else {
				t.Log(complaints[0])
			}
		})
	}
}

// TestPlantedSameEpoch: the check detects a broker that reports the same epoch for the older copy.
func TestPlantedSameEpoch(t *testing.T) {
	h := restartable(t, nil)
	h.Snapshot, h.Rewind = func() {}, h.Reopen
	if complaints := pushtest.Complaints(t.Context(), "older copy of the store", 2*time.Second, h); len(complaints) == 0 {
		t.Error("the check did not complain")
	}
}

// renamed is an attachment whose start has another epoch.
type renamed struct{ broker.Attachment }

func (r renamed) Start() push.Position {
	start := r.Attachment.Start()
	start.Epoch += "'"
	return start
}
