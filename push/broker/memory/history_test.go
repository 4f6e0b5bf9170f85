package memory_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/pushtest"
)

// replica keeps a log of each channel, as a hub does.
type replica struct {
	policy *channel.Policy
	logs   map[string]*channel.Log
	seen   chan uint64

	cleared bool
}

func (r *replica) Deliver(batch []broker.Message) {
	for _, m := range batch {
		if r.logs[m.Channel] == nil {
			r.logs[m.Channel] = channel.New(r.policy, push.Position{}, 0)
		}
		r.logs[m.Channel].Append(m.Publication)
		r.cleared = r.cleared || m.Op == push.Clear
	}
	r.seen <- batch[len(batch)-1].Offset
}
func (r *replica) Gap(string, uint64)  {}
func (r *replica) Advance(uint64)      {}
func (r *replica) Reset(push.Position) {}

func (r *replica) await(offset uint64) {
	for seen := uint64(0); seen < offset; {
		seen = <-r.seen
	}
}

// TestLoadIsTheLog: a load visits exactly the publications in a log that got everything, and returns its floor.
func TestLoadIsTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]push.Mode{push.Stream, push.Value, push.Table}).Draw(t, "mode")
		history := push.History{
			Size:  rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "size"),
			Bytes: rapid.SampledFrom([]int64{0, 30, 100}).Draw(t, "bytes"),
			Age:   rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "age"),
		}
		clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
		b := memory.New(&memory.Options{Now: clock.Now})
		defer func() { _ = b.Close() }()
		ctx := t.Context()
		if err := b.Open(ctx, broker.Namespace{Name: "n", Mode: mode, History: history, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		r := &replica{
			policy: &channel.Policy{Mode: mode, History: history},
			logs:   make(map[string]*channel.Log),
			seen:   make(chan uint64, 1000),
		}
		if _, err := b.Attach(ctx, partition, r); err != nil {
			t.Fatal(err)
		}
		names := []string{"n:a", "n:b", "n:c"}
		var head uint64
		for range rapid.IntRange(1, 60).Draw(t, "publishes") {
			clock.Advance(rapid.SampledFrom([]time.Duration{0, time.Second, 40 * time.Second}).Draw(t, "pause"))
			p := push.Publication{Key: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "key")}
			p.Data = make([]byte, rapid.IntRange(0, 40).Draw(t, "bytes of data"))
			if mode != push.Stream {
				p.Op = rapid.SampledFrom([]push.Op{push.Set, push.Remove}).Draw(t, "op")
			}
			if rapid.IntRange(0, 20).Draw(t, "clear") == 0 {
				p.Op = push.Clear
			}
			name := rapid.SampledFrom(names).Draw(t, "channel")
			pos, err := b.Publish(ctx, name, p, broker.PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			head = pos.Offset
		}
		r.await(head)
		compare(t, b, r, clock)
	})
}

// compare loads a channel and compares it with the replica's log.
func compare(t *rapid.T, b *memory.Broker, r *replica, clock *pushtest.Clock) {
	forgetful := r.cleared || r.policy.History.Age > 0 || r.policy.History.Bytes > 0
	for name, log := range r.logs {
		log.Expire(clock.Now().UnixMilli())
		var want, got []push.Publication
		for e := range log.Entries() {
			want = append(want, e.Publication)
		}
		h, err := b.Load(t.Context(), name, broker.LoadOptions{}, func(m broker.Message) error {
			got = append(got, m.Publication)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// A channel that was not known, or was forgotten, begins with the floor of another that was; and the broker may have evicted
		// a removal by age before it was superseded.
		below := h.Head + 1
		if r.policy.Mode == push.Stream && len(want) > 0 {
			below = want[0].Offset
		}
		isFloor := h.Floor == log.Floor() || forgetful && h.Floor > log.Floor() && h.Floor < below
		if !reflect.DeepEqual(got, want) || !isFloor {
			t.Fatalf("%s: loaded %v above %d, want %v above %d", name, got, h.Floor, want, log.Floor())
		}
	}
}

// TestIdleChannelsAreForgotten: of many idle channels only one number is kept.
func TestIdleChannelsAreForgotten(t *testing.T) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := start(t, &memory.Options{Now: clock.Now}, push.Stream, push.History{Age: time.Minute})
	var newest uint64
	for i := range 5000 {
		newest = publish(t, b, fmt.Sprintf("n:%d", i), push.Publication{})
	}
	clock.Advance(time.Hour)
	for range 2600 {
		publish(t, b, "n:busy", push.Publication{})
	}
	if left := b.Channels(partition); left != 1 {
		t.Errorf("%d channels are left, want 1", left)
	}
	for _, name := range []string{"n:0", "n:4999", "n:never"} {
		h, err := b.Load(t.Context(), name, broker.LoadOptions{}, func(broker.Message) error {
			t.Errorf("something is left of %s", name)
			return nil
		})
		if err != nil || h.Floor != newest || h.Head != newest+2600 {
			t.Errorf("%s: loaded between %d and %d (%v), want %d and %d", name, h.Floor, h.Head, err, newest, newest+2600)
		}
	}
}

// TestClearedChannel: a cleared channel is dropped when its clear is as old as the history allows, so that no younger position of another
// channel suffers.
func TestClearedChannel(t *testing.T) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := start(t, &memory.Options{Now: clock.Now}, push.Table, push.History{Age: time.Minute})
	publish(t, b, "n:1", push.Publication{})
	cleared := publish(t, b, "n:1", push.Publication{Op: push.Clear})
	floor := func() uint64 {
		t.Helper()
		publish(t, b, "n:busy", push.Publication{})
		h, err := b.Load(t.Context(), "n:never", broker.LoadOptions{}, func(broker.Message) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return h.Floor
	}
	if got := floor(); got != 0 {
		t.Errorf("the floor of a channel that never was is %d right after another was cleared, want 0", got)
	}
	clock.Advance(2 * time.Minute)
	if got := floor(); got != cleared {
		t.Errorf("the floor of a channel that never was is %d later, want %d", got, cleared)
	}
}

// TestLongerHistory: entries evicted under a shorter history lie below the floor under a longer one, too.
func TestLongerHistory(t *testing.T) {
	b := start(t, nil, push.Stream, push.History{Size: 2})
	reopen := func(size int) {
		t.Helper()
		ns := broker.Namespace{Name: "n", Mode: push.Stream, History: push.History{Size: size}, Partitions: 1}
		if err := b.Open(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(floor, head uint64) {
		t.Helper()
		next := floor + 1
		h, err := b.Load(t.Context(), "n:1", broker.LoadOptions{}, func(p broker.Message) error {
			if p.Offset != next {
				t.Errorf("offset %d was loaded, want %d", p.Offset, next)
			}
			next++
			return nil
		})
		if err != nil || h.Floor != floor || h.Head != head || next != head+1 {
			t.Errorf("loaded between %d and %d up to %d (%v), want %d and %d", h.Floor, h.Head, next-1, err, floor, head)
		}
	}
	for range 5 {
		publish(t, b, "n:1", push.Publication{})
	}
	expect(3, 5)
	reopen(4)
	publish(t, b, "n:1", push.Publication{})
	expect(3, 6)
	publish(t, b, "n:1", push.Publication{})
	publish(t, b, "n:1", push.Publication{})
	expect(4, 8)
	reopen(1)
	expect(7, 8)
}

// TestClockGoesBack: the partition's time stands still while the clock is behind it.
func TestClockGoesBack(t *testing.T) {
	clock := pushtest.NewClock(time.Unix(1_700_000_000, 0))
	b := start(t, &memory.Options{Now: clock.Now}, push.Stream, push.History{Age: time.Hour})
	for range 3 {
		publish(t, b, "n:1", push.Publication{})
		clock.Advance(-time.Hour)
	}
	clock.Advance(3*time.Hour + time.Second)
	publish(t, b, "n:1", push.Publication{})
	var times []int64
	_, err := b.Load(t.Context(), "n:1", broker.LoadOptions{}, func(p broker.Message) error {
		times = append(times, p.Time-1_700_000_000_000)
		return nil
	})
	if want := []int64{0, 0, 0, 1000}; err != nil || !slices.Equal(times, want) {
		t.Errorf("dated %v (%v), want %v", times, err, want)
	}
}
