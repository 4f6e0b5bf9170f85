package pushtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/pushtest"
)

// disk is a broker that outlives its Close, which only detaches the followers. It stands for a broker with durable data.
type disk struct {
	broker.Broker
	mu       sync.Mutex
	attached []broker.Attachment
}

func newDisk(b broker.Broker) *disk { return &disk{Broker: b} }

// Attach attaches the follower until Close.
func (d *disk) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	a, err := d.Broker.Attach(ctx, p, f)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.attached = append(d.attached, a)
	}
	return a, err
}

// Close detaches the followers: the suite expects no deliveries behind it.
func (d *disk) Close() error {
	d.mu.Lock()
	attached := d.attached
	d.attached = nil
	d.mu.Unlock()
	for _, a := range attached {
		a.Detach()
	}
	return nil
}

func (d *disk) Open(ctx context.Context, ns broker.Namespace) error {
	ns.Durable = false
	return d.Broker.Open(ctx, ns)
}

// restartable returns a harness with a broker that can be restarted. If plants is not nil, it plants a bug in the restarted broker.
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
	h.Broker, h.Durable, h.Recreate = newDisk(kept), true, nil
	h.Reopen = func() broker.Broker {
		if plant != nil {
			return newDisk(plant(kept, empty))
		}
		return newDisk(kept)
	}
	return h
}

// TestPlantedRestart: the check detects a broker that loses data in a restart.
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
		{"channels of keys of idempotency", func(kept, empty broker.Broker) broker.Broker {
			p := both(kept, empty)
			publishing(func(c string, _ *push.Publication, o *broker.PublishOptions) string {
				if o.IdempotencyKey != "" {
					c = "s:2"
				}
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

// crashable returns a harness with a broker that a crash makes unusable, but whose data survives. If plants is not nil, it plants a bug in the
// broker after the crash.
func crashable(t *testing.T, plant func(*planted)) pushtest.Harness {
	t.Helper()
	h := restartable(t, nil)
	kept := h.Broker
	var isCrashed atomic.Bool
	down := errors.New("the server is down")
	h.Broker = &planted{Broker: kept, publish: func(ctx context.Context, c string, p push.Publication, o broker.PublishOptions) (push.Position, error) {
		if isCrashed.Load() {
			return push.Position{}, down
		}
		return kept.Publish(ctx, c, p, o)
	}}
	h.Reopen, h.Crash = nil, func() broker.Broker {
		isCrashed.Store(true)
		p := &planted{Broker: kept}
		if plant != nil {
			plant(p)
		}
		return p
	}
	return h
}

// TestPlantedCrash: the check detects a broker that loses data in a crash.
func TestPlantedCrash(t *testing.T) {
	tests := []struct {
		name  string
		plant func(*planted)
	}{
		{"the newest", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
			return found[:len(found)*9/10]
		})},
		{"one in the middle", loading(func(found []push.Publication, _ *broker.History) []push.Publication {
			return slices.DeleteFunc(found, func(p push.Publication) bool { return p.Offset == 20 })
		})},
		{"the epoch", func(p *planted) {
			p.head = func(ctx context.Context, part broker.Partition) (push.Position, error) {
				pos, err := p.Broker.Head(ctx, part)
				pos.Epoch += "'"
				return pos, err
			}
		}},
		{"that it is there", loading(func(found []push.Publication, h *broker.History) []push.Publication {
			if n := len(found); n > 2 {
				again := found[n-1]
				again.Offset = h.Head + 1
				found = append(found, again)
			}
			return found
		})},
		{"keys of idempotency", publishing(func(c string, _ *push.Publication, o *broker.PublishOptions) string {
			o.IdempotencyKey = ""
			return c
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			complaints := pushtest.Complaints(t.Context(), "crash", 2*time.Second, crashable(t, tt.plant))
			if len(complaints) == 0 {
				t.Error("the check did not complain")
			} else {
				t.Log(complaints[0])
			}
		})
	}
}
