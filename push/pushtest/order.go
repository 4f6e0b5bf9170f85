package pushtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// ledger collects the acknowledged publications.
type ledger struct {
	mu       sync.Mutex
	messages []broker.Message
}

func (l *ledger) add(m broker.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, m)
}

// ordered returns the acknowledged publications in the order of offsets.
func (l *ledger) ordered() []broker.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.messages)
	slices.SortFunc(out, func(a, b broker.Message) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// concurrently runs f n times concurrently and waits for all. If one fails, the check ends.
func (s *suite) concurrently(n int, f func(i int) error) {
	s.Helper()
	failures := make(chan error, n)
	for i := range n {
		go func() { failures <- f(i) }()
	}
	var failed error
	for range n {
		if err := <-failures; err != nil {
			failed = err
		}
	}
	s.must("one of several at once", failed)
}

// burst publishes n times, to the channels of a namespace in turn, and checks that the offsets rise. A publication that is refused with ErrBusy
// is repeated.
func (s *suite) burst(l *ledger, namespace string, publisher, n int) error {
	for done := 0; ; {
		did, err := s.push(l, namespace, publisher, n-done)
		done += did
		if !errors.Is(err, broker.ErrBusy) || s.ctx.Err() != nil {
			return err
		}
		runtime.Gosched()
	}
}

// push is burst until the first error. It returns how many publications were accepted.
func (s *suite) push(l *ledger, namespace string, publisher, n int) (done int, err error) {
	var last uint64
	for i := range n {
		channel := fmt.Sprintf("%s:%d", namespace, (publisher+i)%7)
		p := push.Publication{Key: fmt.Sprint(i % 5), Data: fmt.Appendf(nil, "%d/%d", publisher, i)}
		pos, err := s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{})
		if err != nil {
			return i, err
		}
		if pos.Offset <= last || pos.Offset > push.MaxOffset {
			return i, fmt.Errorf("offset %d was acknowledged after offset %d", pos.Offset, last)
		}
		last, p.Offset = pos.Offset, pos.Offset
		l.add(broker.Message{Channel: channel, Publication: p})
	}
	return n, nil
}

// checkOrder: with concurrent publishers, a follower gets exactly the acknowledged publications, in the order of offsets.
func checkOrder(s *suite) {
	s.open("o", push.Stream, push.History{Size: 100})
	var before, after ledger
	s.must("publish", s.burst(&before, "o", 0, 10))
	r := newRecorder()
	a := s.attach("o", r)
	old := before.ordered()
	if start := a.Start(); start.Offset < old[len(old)-1].Offset || start != s.head("o") {
		s.Errorf("attached from %v, but %d was acknowledged and %v is the head", start, old[len(old)-1].Offset, s.head("o"))
	}
	s.concurrently(8, func(i int) error { return s.burst(&after, "o", i, 150) })
	r.await(s, 8*150)
	r.expect(s, after.ordered())
	s.detach(a)
	r.expect(s, after.ordered())
}

// checkTwoFollowers: all followers of a partition get the same messages, and one that attaches later gets the rest.
func checkTwoFollowers(s *suite) {
	s.open("o", push.Table, push.History{})
	var all ledger
	first, second, late := newRecorder(), newRecorder(), newRecorder()
	s.attach("o", first)
	s.attach("o", second)
	s.must("publish", s.burst(&all, "o", 0, 50))
	a := s.attach("o", late)
	s.concurrently(4, func(i int) error { return s.burst(&all, "o", i, 50) })
	want := all.ordered()
	for _, r := range []*recorder{first, second} {
		r.await(s, len(want))
		r.expect(s, want)
	}
	late.await(s, 4*50)
	late.expect(s, want[50:])
	if got := a.Start().Offset; got < want[49].Offset || got >= want[50].Offset {
		s.Errorf("the late follower was attached from %d, want %d", got, want[49].Offset)
	}
}

// checkPartitions: a channel is in the partition that PartitionOf returns, and each partition is a sequence of its own.
func checkPartitions(s *suite) {
	const n = 4
	s.openWith(broker.Namespace{Name: "p", Mode: push.Stream, Partitions: n})
	var recorders [n]*recorder
	var ledgers [n]ledger
	var starts [n]push.Position
	for i := range n {
		recorders[i] = newRecorder()
		a, err := s.broker.Attach(s.ctx, broker.Partition{Namespace: "p", Index: i}, recorders[i])
		s.must("attach", err)
		starts[i] = a.Start()
	}
	s.concurrently(4, func(publisher int) error {
		for i := range 100 {
			channel := fmt.Sprintf("p:%d", i%20)
			part := broker.PartitionOf(channel, n).Index
			p := push.Publication{Data: fmt.Appendf(nil, "%d/%d", publisher, i)}
			pos, err := s.broker.Publish(s.ctx, channel, p, broker.PublishOptions{})
			if err != nil {
				return err
			}
			if pos.Epoch != starts[part].Epoch {
				return fmt.Errorf("published at epoch %q, the partition's is %q", pos.Epoch, starts[part].Epoch)
			}
			p.Offset = pos.Offset
			ledgers[part].add(broker.Message{Channel: channel, Publication: p})
		}
		return nil
	})
	for i := range n {
		want := ledgers[i].ordered()
		if len(want) == 0 {
			s.Errorf("none of the channels is in partition %d", i)
		}
		recorders[i].await(s, len(want))
		recorders[i].expect(s, want)
		head, err := s.broker.Head(s.ctx, broker.Partition{Namespace: "p", Index: i})
		s.must("head", err)
		if last := want[len(want)-1].Offset; head.Offset < last || head.Epoch != starts[i].Epoch {
			s.Errorf("the head of partition %d is %v, want %d or more in epoch %q", i, head, last, starts[i].Epoch)
		}
	}
}

// checkDetach: Detach waits for the follower, which is not called any more afterwards. Other followers are not disturbed, except as HoldsUp says.
func checkDetach(s *suite) {
	s.open("d", push.Stream, push.History{})
	other := newRecorder()
	s.attach("d", other)
	var all ledger
	for range 10 {
		s.detachHeld(&all, other)
	}
	other.expect(s, all.ordered())
}

// detachHeld detaches a follower during a delivery.
func (s *suite) detachHeld(all *ledger, other *recorder) {
	s.Helper()
	held, open := newHeld()
	defer open()
	a := s.attach("d", held)
	before := len(all.ordered())
	s.must("publish", s.burst(all, "d", 0, 1))
	s.wait("the first delivery", held.entered)
	detached := make(chan struct{})
	go func() {
		defer close(detached)
		a.Detach()
		held.release()
	}()
	// If Detach does not wait, it has ample time to return while the others continue.
	s.must("publish", s.burst(all, "d", 0, 5))
	if !s.harness.HoldsUp {
		other.await(s, before+6)
	}
	open()
	s.wait("detach", detached)
	other.await(s, before+6)
	s.must("publish", s.burst(all, "d", 0, 20))
	other.await(s, before+26)
	s.detach(a) // another call does nothing
	got, want := held.recorded(s), all.ordered()[before:]
	if len(got) == 0 || len(got) > 6 || got[0].Offset != want[0].Offset {
		s.Errorf("the detached follower was given %d messages, want 1 to 6", len(got))
	}
}

// checkSlowFollower: a follower that does not keep up may hold back publishers. But acknowledged publications are delivered, and refused ones
// are not stored.
func checkSlowFollower(s *suite) {
	s.open("s", push.Stream, push.History{})
	held, open := newHeld()
	defer open()
	s.attach("s", held)
	var all ledger
	s.concurrently(4, func(i int) error {
		_, err := s.push(&all, "s", i, 1000)
		if errors.Is(err, broker.ErrBusy) {
			return nil
		}
		return err
	})
	// A publisher that gives up waiting gets its context's error, and nothing is stored.
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.broker.Publish(ctx, "s:0", push.Publication{Data: []byte("late")}, broker.PublishOptions{})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("publish without time: %v, want context.Canceled", err)
	}
	open()
	held.await(s, len(all.ordered()))
	s.must("publish to a follower that has caught up", s.burst(&all, "s", 4, 100))
	want := all.ordered()
	held.awaitOffset(s, want[len(want)-1].Offset)
	held.expect(s, want)
	loaded := 0
	for i := range 7 {
		publications, _ := s.load(fmt.Sprintf("s:%d", i))
		loaded += len(publications)
	}
	if loaded != len(want) {
		s.Errorf("%d publications were loaded, %d were acknowledged", loaded, len(want))
	}
}

// checkSlowFollowerEvicted: however far a follower falls behind a channel with a short history, each message is delivered to it, or is covered
// by a gap that is reported in time. A broker that holds back publishers instead returns ErrBusy.
func checkSlowFollowerEvicted(s *suite) {
	const size = 5
	s.open("s", push.Stream, push.History{Size: size})
	held, open := newHeld()
	defer open()
	held.takesGaps = true
	start := s.attach("s", held).Start()
	var all ledger
	for i := range 7 {
		if _, err := s.push(&all, "s", i, 30*size); errors.Is(err, broker.ErrBusy) {
			break
		} else {
			s.must("publish beside a follower that is held", err)
		}
	}
	open()
	s.must("publish to a follower that is held no more", s.burst(&all, "s", 0, 1))
	want := all.ordered()
	held.awaitOffset(s, want[len(want)-1].Offset)
	held.expectOrGap(s, start.Offset, want)
	for i := range 7 {
		channel := fmt.Sprintf("s:%d", i)
		mine := slices.DeleteFunc(slices.Clone(want), func(m broker.Message) bool { return m.Channel != channel })
		s.expectLoad(channel, mine[max(len(mine)-size, 0):]...)
	}
}

// expectOrGap fails the check unless the messages of want were delivered in their order, except for those covered by a gap that was reported
// before any message above it.
func (r *recorder) expectOrGap(s *suite, start uint64, want []broker.Message) {
	s.Helper()
	got := r.recorded(s)
	r.mu.Lock()
	told := r.gaps
	r.mu.Unlock()
	given := start              // everything up to this offset is accounted for
	gaps := map[string]uint64{} // and everything of a channel up to this one
	skip := func(before int) {  // leaves out what gaps cover that were told before a message
		for ; len(told) > 0 && told[0].before <= before; told = told[1:] {
			g := told[0]
			if g.offset <= max(given, gaps[g.channel]) {
				s.Errorf("a gap of %q up to %d was told when %d was accounted for", g.channel, g.offset, max(given, gaps[g.channel]))
			}
			if gaps[g.channel] = g.offset; g.channel == "" {
				given = max(given, g.offset)
			}
		}
		for len(want) > 0 && want[0].Offset <= max(given, gaps[want[0].Channel]) {
			want = want[1:]
		}
	}
	for i := range got {
		skip(i)
		if len(want) == 0 || got[i].Channel != want[0].Channel || !same(&got[i].Publication, &want[0].Publication) {
			s.Fatalf("%s came when everything up to %d was accounted for, what was published after that begins with %v",
				describe(&got[i]), given, describeFirst(want))
		}
		given = got[i].Offset
	}
	if skip(len(got)); len(want) > 0 {
		s.Errorf("%d messages came, and with gaps everything up to %d is accounted for, which is not all", len(got), given)
	}
}

func describeFirst(messages []broker.Message) string {
	if len(messages) == 0 {
		return "nothing"
	}
	return describe(&messages[0])
}
