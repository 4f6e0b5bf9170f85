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

// disk is a broker that outlives being closed: closing it only says so. It stands in for one that keeps its data.
type disk struct{ broker.Broker }

func (d disk) Close() error { return nil }

func (d disk) Open(ctx context.Context, ns broker.Namespace) error {
	ns.Durable = false
	return d.Broker.Open(ctx, ns)
}

// restartable returns a harness with a broker that can be restarted. What plants, if it is set, spoils the broker that comes back.
func restartable(t *testing.T, plant func(kept, empty broker.Broker) broker.Broker) pushtest.Harness {
	t.Helper()
	h, _ := open()
	kept, empty := h.Broker, h.Recreate()
	t.Cleanup(func() {
		for _, b := range []broker.Broker{kept, empty} {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	h.Broker, h.Durable, h.Recreate = disk{kept}, true, nil
	h.Reopen = func() broker.Broker {
		if plant != nil {
			return disk{plant(kept, empty)}
		}
		return disk{kept}
	}
	return h
}

// TestPlantedRestart: the check of a restart finds a broker that forgets something by it.
func TestPlantedRestart(t *testing.T) {
	both := func(kept, empty broker.Broker) *planted {
		return &planted{Broker: kept, open: func(ctx context.Context, ns broker.Namespace) error {
			return errors.Join(kept.Open(ctx, ns), empty.Open(ctx, ns))
		}}
	}
	tests := []struct {
		name  string
		plant func(kept, empty broker.Broker) broker.Broker
	}{
		{"everything", func(_, empty broker.Broker) broker.Broker { return empty }},
		{"history", func(kept, empty broker.Broker) broker.Broker {
			p := both(kept, empty)
			p.load = empty.Load
			return p
		}},
		{"head", func(kept, empty broker.Broker) broker.Broker {
			p := both(kept, empty)
			p.head = empty.Head
			return p
		}},
		{"keys of idempotency", func(kept, empty broker.Broker) broker.Broker {
			p := both(kept, empty)
			publishing(func(c string, _ *push.Publication, o *broker.PublishOptions) string {
				o.IdempotencyKey = ""
				return c
			})(p)
			return p
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			complaints := pushtest.Complaints(t.Context(), "restart", 2*time.Second, restartable(t, tt.plant))
			if len(complaints) == 0 {
				t.Error("the check did not complain")
			}
		})
	}
}
