package hub_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// wants returns how often a channel is wanted, but for the hub's own.
func (r *rig) wants(name string) int {
	r.wantMu.Lock()
	defer r.wantMu.Unlock()
	return r.wanted[name]
}

// A hub wants a channel from before it is loaded until it is given up, once however many subscribe.
func TestInterest(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), &hub.Options{Linger: -1})
	r.set(func(r *rig) {
		r.onLoad = func(_ context.Context, name string) error {
			if name == "stream:x" && r.wants(name) != 1 {
				t.Error("the channel is loaded before it is wanted")
			}
			return nil
		}
	})
	publishN(t, h, "stream:x", 1, 3)
	subscribe := func(name string) *hub.Session {
		s := newCarrier(t, open, false).connect(h, client(name))
		must(t, s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "stream:x"}, func(hub.Subscribed) error { return nil }))
		return s
	}
	a, b := subscribe("a"), subscribe("b")
	if n := r.wants("stream:x"); n != 1 {
		t.Errorf("it is wanted %d times", n)
	}
	a.Close()
	b.Close()
	testwait.True(t, "it is given up", func() bool { h.Sweep(time.Now()); return h.Holds("stream:x") == -1 })
	testwait.True(t, "it is wanted no more", func() bool { return r.wants("stream:x") == 0 })
	subscribe("c")
	if n := r.wants("stream:x"); n != 1 {
		t.Errorf("it is wanted %d times again", n)
	}
	r.renew()
	testwait.True(t, "it is wanted no more after its life has ended", func() bool { return r.wants("stream:x") == 0 })
}

// A channel that cannot be wanted, or not be loaded, is an error, and is not wanted afterwards.
func TestInterestFails(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{Size: 10}), nil)
	no := errors.New("no")
	for _, fail := range []func(r *rig){
		func(r *rig) { r.onWant = no },
		func(r *rig) { r.onWant, r.onLoad = nil, func(context.Context, string) error { return no } },
	} {
		r.set(fail)
		if _, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{}); !errors.Is(err, push.ErrInternal) {
			t.Errorf("got %v", err)
		}
		testwait.True(t, "it is not wanted", func() bool { return r.wants("stream:x") == 0 })
	}
	r.set(func(r *rig) { r.onLoad = nil })
	_, err := h.History(testwait.Context(t), "stream:x", hub.HistoryRequest{})
	must(t, err)
}

// retagging is a broker that does not deliver every version of a row, and says when its tags have changed.
type retagging struct{ *memory.Broker }

type retaggingFollower struct{ broker.Follower }

func (b retagging) Attach(ctx context.Context, p broker.Partition, f broker.Follower) (broker.Attachment, error) {
	return b.Broker.Attach(ctx, p, retaggingFollower{f})
}

func (f retaggingFollower) Deliver(batch []broker.Message) {
	var some []broker.Message
	for _, m := range batch {
		if m.Tags["skip"] == "" {
			m.Retag = m.Offset - 1 // the version before has other tags, and is skipped
			some = append(some, m)
		}
	}
	if len(some) > 0 {
		f.Follower.Deliver(some)
	}
}

// What a broker says of the tags of a row is what the hub's log says.
func TestRetag(t *testing.T) {
	h := newHub(t, retagging{newBroker(t)}, spaces(push.History{}), nil)
	s := newCarrier(t, open, false).connect(h, client("a"))
	must(t, s.Subscribe(testwait.Context(t), hub.SubscribeRequest{Channel: "table:x"}, func(hub.Subscribed) error { return nil }))
	put := func(tags map[string]string) uint64 {
		at, err := h.Publish(testwait.Context(t), "table:x", push.Publication{Key: "row", Data: []byte("1"), Tags: tags}, "")
		must(t, err)
		return at.Offset
	}
	put(map[string]string{"kind": "one"})
	skipped := put(map[string]string{"kind": "two", "skip": "yes"})
	put(map[string]string{"kind": "one"})
	var rows []*channel.Entry
	testwait.True(t, "the newest version is there", func() bool {
		rows = h.Rows("table:x")
		return len(rows) == 1 && rows[0].Offset == skipped+1
	})
	if rows[0].Retag != skipped {
		t.Errorf("the tags changed last at %d, want %d", rows[0].Retag, skipped)
	}
}
