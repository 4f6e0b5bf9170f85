package pushtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// recorder is a follower that records its messages, and violations of the rules for followers.
type recorder struct {
	mu       sync.Mutex
	messages []broker.Message
	trouble  []string
	busy     bool          // a method is running
	released bool          // no method may be called any more
	changed  chan struct{} // closed and replaced on each delivery, gap or reset
	gate     chan struct{} // nil, or closed when Deliver may continue
	entered  chan struct{} // closed on the first call of a method

	takesGaps   bool // set before attaching: gaps are allowed
	takesResets bool // set before attaching: resets are allowed, and messages are those since the last one
	gaps        []gap
	resets      []push.Position
}

// gap is a gap that was reported to a follower.
type gap struct {
	before  int    // index of the next message
	channel string // of this channel, of all if it is empty
	offset  uint64 // messages up to it may be missing
}

func newRecorder() *recorder {
	return &recorder{changed: make(chan struct{}), entered: make(chan struct{})}
}

// newHeld returns a recorder whose Deliver blocks until open is called.
func newHeld() (r *recorder, open func()) {
	r = newRecorder()
	r.gate = make(chan struct{})
	return r, sync.OnceFunc(func() { close(r.gate) })
}

// Deliver implements broker.Follower.
func (r *recorder) Deliver(batch []broker.Message) {
	r.enter("Deliver")
	if len(batch) == 0 {
		r.note("an empty batch was delivered")
	}
	if r.gate != nil {
		<-r.gate
	}
	r.change(func() { r.messages = append(r.messages, batch...) })
	r.leave()
}

// Gap implements broker.Follower. In most checks a gap is an error.
func (r *recorder) Gap(channel string, offset uint64) {
	r.enter("Gap")
	if r.takesGaps {
		r.change(func() { r.gaps = append(r.gaps, gap{len(r.messages), channel, offset}) })
	} else {
		r.note(fmt.Sprintf("a gap up to %d was told, channel %q", offset, channel))
	}
	r.leave()
}

// Advance implements broker.Follower.
func (r *recorder) Advance(offset uint64) {
	r.enter("Advance")
	r.change(func() {
		if n := len(r.messages); n > 0 && r.messages[n-1].Offset > offset {
			r.trouble = append(r.trouble, fmt.Sprintf("Advance to %d after a delivery at %d", offset, r.messages[n-1].Offset))
		}
	})
	r.leave()
}

// Reset implements broker.Follower. In most checks a reset is an error.
func (r *recorder) Reset(start push.Position) {
	r.enter("Reset")
	if r.takesResets {
		r.change(func() { r.resets, r.messages = append(r.resets, start), nil })
	} else {
		r.note(fmt.Sprintf("a reset to %v was told", start))
	}
	r.leave()
}

// change applies f and wakes the goroutines that wait for a change.
func (r *recorder) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) enter(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		r.trouble = append(r.trouble, method+" was called while another method was running")
	}
	if r.released {
		r.trouble = append(r.trouble, method+" was called after Detach or Close had returned")
	}
	r.busy = true
	select {
	case <-r.entered:
	default:
		close(r.entered)
	}
}

func (r *recorder) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}

func (r *recorder) note(trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = append(r.trouble, trouble)
}

// release declares that no method may be running or be called any more.
func (r *recorder) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		r.trouble = append(r.trouble, "a method was still running when Detach or Close returned")
	}
	r.released = true
}

// count returns how many messages were delivered, and a channel that is closed on the next change.
func (r *recorder) count() (int, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.messages), r.changed
}

// await waits until n messages were delivered.
func (r *recorder) await(s *suite, n int) {
	s.Helper()
	for {
		have, more := r.count()
		if have >= n {
			return
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			s.Fatalf("only %d of %d messages were delivered", have, n)
		}
	}
}

// awaitOffset waits until a message at offset or above was delivered.
func (r *recorder) awaitOffset(s *suite, offset uint64) {
	s.Helper()
	for {
		r.mu.Lock()
		n, more := len(r.messages), r.changed
		done := n > 0 && r.messages[n-1].Offset >= offset
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			s.Fatalf("offset %d was not delivered, %d messages were", offset, n)
		}
	}
}

// recorded returns the delivered messages, and fails the check for recorded violations.
func (r *recorder) recorded(s *suite) []broker.Message {
	s.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, trouble := range r.trouble {
		s.Errorf("%s", trouble)
	}
	for i := 1; i < len(r.messages); i++ {
		before, m := &r.messages[i-1], &r.messages[i]
		if m.Offset <= before.Offset {
			s.Errorf("offset %d was delivered after offset %d", m.Offset, before.Offset)
		}
		if m.Time < before.Time {
			s.Errorf("time went back from %d to %d at offset %d", before.Time, m.Time, m.Offset)
		}
	}
	return slices.Clone(r.messages)
}

// expect fails the check unless exactly the messages of want were delivered, in their order.
func (r *recorder) expect(s *suite, want []broker.Message) {
	s.Helper()
	got := r.recorded(s)
	for i := range min(len(got), len(want)) {
		if got[i].Channel != want[i].Channel || !same(&got[i].Publication, &want[i].Publication) {
			s.Fatalf("message %d of %d is %s, want %s", i, len(got), describe(&got[i]), describe(&want[i]))
		}
	}
	if len(got) != len(want) {
		s.Fatalf("%d messages were delivered, want %d", len(got), len(want))
	}
}

// same reports whether two publications are equal, except for their time. Empty and nil are equal.
func same(a, b *push.Publication) bool {
	return a.Offset == b.Offset && a.Key == b.Key && a.Op == b.Op &&
		bytes.Equal(a.Data, b.Data) && maps.Equal(a.Tags, b.Tags) && sameInfo(a.Info, b.Info)
}

func sameInfo(a, b *push.ClientInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.User == b.User && a.Client == b.Client &&
		bytes.Equal(a.ConnInfo, b.ConnInfo) && bytes.Equal(a.ChanInfo, b.ChanInfo)
}

// describe returns a shortened description of a message.
func describe(m *broker.Message) string {
	return fmt.Sprintf("{%.40q offset %d key %.40q op %d data %.40q (%d bytes) tags %v info %v}",
		m.Channel, m.Offset, m.Key, m.Op, m.Data, len(m.Data), m.Tags, m.Info)
}

// expectLoad fails the check unless a load of the channel visits exactly the publications of want.
func (s *suite) expectLoad(channel string, want ...broker.Message) broker.History {
	s.Helper()
	got, h := s.load(channel)
	for i := range min(len(got), len(want)) {
		if !same(&got[i], &want[i].Publication) {
			s.Fatalf("publication %d of %d loaded of %.40q is %s, want %s", i, len(got), channel,
				describe(&broker.Message{Channel: channel, Publication: got[i]}), describe(&want[i]))
		}
	}
	if len(got) != len(want) {
		s.Fatalf("%d publications were loaded of %.40q, want %d", len(got), channel, len(want))
	}
	return h
}
