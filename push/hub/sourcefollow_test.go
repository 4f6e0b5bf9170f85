package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// noter is a follower that notes what it is told.
type noter struct {
	mu       sync.Mutex
	messages []broker.Message
	gaps     []broker.Message // channel and offset
	resets   []push.Position
	advanced uint64
	onCall   func()
}

func (f *noter) note(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	if f.onCall != nil {
		f.onCall()
	}
}

func (f *noter) Deliver(batch []broker.Message) {
	f.note(func() { f.messages = append(f.messages, batch...) })
}

func (f *noter) Gap(channel string, offset uint64) {
	f.note(func() {
		f.gaps = append(f.gaps, broker.Message{Channel: channel, Publication: push.Publication{Offset: offset}})
	})
}

func (f *noter) Advance(offset uint64) { f.note(func() { f.advanced = offset }) }

func (f *noter) Reset(start push.Position) {
	f.note(func() { f.resets, f.messages = append(f.resets, start), nil })
}

// last returns the offset of the newest message.
func (f *noter) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.messages) == 0 {
		return 0
	}
	return f.messages[len(f.messages)-1].Offset
}

func (f *noter) offsets() (out []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.messages {
		out = append(out, m.Offset)
	}
	return out
}

func attach(t testing.TB, b broker.Broker, channel string, f broker.Follower) broker.Attachment {
	t.Helper()
	a, err := b.Attach(testwait.Context(t), partitionOf(channel), f)
	must(t, err)
	return a
}

// Followers of many gateways come and go while publications run. Each gets exactly the publications after its start, in order.
func TestSourceFollowers(t *testing.T) {
	h := newHub(t, newBroker(t), spaces(push.History{Size: 10}), nil)
	b := newSource(t, h)
	const channel, gateways = "stream:x", 8
	stop := make(chan struct{})
	var publisher, all sync.WaitGroup
	publisher.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				publish(t, h, channel, push.Publication{Data: fmt.Append(nil, i)})
			}
		}
	})
	for range gateways {
		all.Go(func() {
			for range 20 {
				f := &noter{}
				a, err := b.Attach(testwait.Context(t), partitionOf(channel), f)
				if err != nil {
					t.Error(err)
					return
				}
				start := a.Start().Offset
				testwait.True(t, "some publications arrive", func() bool { return f.last() >= start+3 })
				a.Detach()
				got := f.offsets()
				for i, offset := range got {
					if offset != start+uint64(i)+1 {
						t.Errorf("attached from %d, and publication %d is at %d", start, i, offset)
						return
					}
				}
				if _, _, err := loadAll(testwait.Context(t), b, channel); err != nil {
					t.Error(err)
				}
				if after := f.offsets(); len(after) != len(got) {
					t.Errorf("%d publications came after Detach", len(after)-len(got))
				}
			}
		})
	}
	all.Wait()
	close(stop)
	publisher.Wait()
}

// A follower begins behind everything that was stored before, although the hub has not got that yet.
func TestSourceBeginsAtHead(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	const channel = "stream:x"
	release := r.hold()
	publishN(t, h, channel, 0, 5)
	f := &noter{}
	start := attach(t, b, channel, f).Start().Offset
	if head, err := r.Head(t.Context(), partitionOf(channel)); err != nil || start != head.Offset {
		t.Errorf("attached from %d, the head is %v, %v", start, head, err)
	}
	release()
	publishN(t, h, channel, 5, 3)
	testwait.True(t, "the newest arrives", func() bool { return f.last() == start+3 })
	if got := f.offsets(); !slices.Equal(got, []uint64{start + 1, start + 2, start + 3}) {
		t.Errorf("attached from %d, got %v", start, got)
	}
}

// The partition begins a new epoch while gateways follow it and load.
func TestSourceReset(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	const channel = "table:x"
	f := &noter{}
	a := attach(t, b, channel, f)
	old := a.Start().Epoch
	publishN(t, h, channel, 0, 3)
	testwait.True(t, "the publications arrive", func() bool { return len(f.offsets()) == 3 })
	loads(t, b, channel, "2")

	stop, loading := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		loading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, found, err := loadAll(testwait.Context(t), b, channel)
				if errors.Is(err, broker.ErrClosed) {
					continue // the old store
				}
				if err != nil || found.Epoch == old != slices.Equal(got, []string{"2"}) {
					t.Errorf("in epoch %s %q was loaded, %v", found.Epoch, got, err)
					return
				}
			}
		})
	}
	r.renew()
	testwait.True(t, "the reset arrives", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.resets) == 1 })
	close(stop)
	loading.Wait()
	at := publish(t, h, channel, push.Publication{Data: []byte("new")})
	testwait.True(t, "the publication arrives", func() bool { return slices.Equal(f.offsets(), []uint64{at.Offset}) })
	if found := loads(t, b, channel, "new"); found.Epoch == old || found.Epoch != f.resets[0].Epoch {
		t.Errorf("loaded in epoch %s, reset to %v from %s", found.Epoch, f.resets[0], old)
	}
	if start := attach(t, b, channel, &noter{}).Start(); start != at {
		t.Errorf("attached from %v, want %v", start, at)
	}
}

// A gap reaches the followers, and the loads take it into account.
func TestSourceGap(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	f := &noter{}
	attach(t, b, "stream:x", f)
	publishN(t, h, "stream:x", 0, 3)
	loads(t, b, "stream:x", "0", "1", "2")
	r.lose()
	lost := publishN(t, h, "stream:x", 3, 1)
	testwait.True(t, "the gap arrives", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.gaps) == 1 })
	r.keep()
	next := publishN(t, h, "stream:x", 4, 1)
	testwait.True(t, "the next publication arrives", func() bool { return f.last() == next.Offset })
	if found := loads(t, b, "stream:x", "4"); found.Floor != lost.Offset {
		t.Errorf("the floor is %d, the gap reaches up to %d", found.Floor, lost.Offset)
	}
	if g := f.gaps[0]; g.Channel != "" || g.Offset != lost.Offset {
		t.Errorf("a gap of %q up to %d was told, want one of all channels up to %d", g.Channel, g.Offset, lost.Offset)
	}
}

// A follower that is attached after a gap of a channel, and before the partition has got there, is told of the gap.
func TestSourceGapAhead(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	const channel = "stream:x"
	at := publishN(t, h, channel, 0, 1)
	testwait.True(t, "the publication arrives", func() bool { return h.Applied(channel) == at.Offset })
	gap := func(offset uint64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for f := range r.attached {
			if f.id == partitionOf(channel) {
				f.Gap(channel, offset)
			}
		}
	}
	early, late, later := &noter{}, &noter{}, &noter{}
	attach(t, b, channel, early)
	gap(at.Offset + 2)
	attach(t, b, channel, late)
	end := publishN(t, h, channel, 1, 2)
	testwait.True(t, "the publications arrive", func() bool { return late.last() == end.Offset })
	attach(t, b, channel, later)
	for name, f := range map[string]*noter{"early": early, "late": late} {
		f.mu.Lock()
		if len(f.gaps) != 1 || f.gaps[0].Channel != channel || f.gaps[0].Offset != at.Offset+2 {
			t.Errorf("the %s follower was told of the gaps %v", name, f.gaps)
		}
		f.mu.Unlock()
	}
	if len(later.gaps) != 0 {
		t.Errorf("a follower beyond the gap was told of %v", later.gaps)
	}
}

// What a follower wants is passed on to the broker, and ends with it.
func TestSourceWants(t *testing.T) {
	r := newRig(t, nil)
	h := newHub(t, r, spaces(push.History{}), nil)
	b := newSource(t, h)
	first, second := attach(t, b, "stream:x", &noter{}), attach(t, b, "stream:x", &noter{})
	wants := func(want int) {
		t.Helper()
		r.wantMu.Lock()
		defer r.wantMu.Unlock()
		if got := r.wanted["stream:x"]; got != want {
			t.Errorf("the channel is wanted %d times, want %d", got, want)
		}
	}
	for _, a := range []broker.Attachment{first, first, second} {
		must(t, a.Want(testwait.Context(t), "stream:x"))
	}
	wants(3)
	first.Unwant("stream:x")
	second.Unwant("stream:other")
	wants(2)
	second.Unwant("stream:x")
	second.Unwant("stream:x")
	wants(1)
	must(t, first.Want(testwait.Context(t), "stream:x"))
	first.Detach()
	first.Detach()
	wants(0)
	if err := first.Want(testwait.Context(t), "stream:x"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Want after Detach: %v", err)
	}
	r.set(func(r *rig) { r.onWant = broker.ErrBusy })
	if err := second.Want(testwait.Context(t), "stream:x"); !errors.Is(err, broker.ErrBusy) {
		t.Errorf("Want: %v, want the broker's error", err)
	}
	wants(0)
}
