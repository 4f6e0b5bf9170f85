package pushtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// checkJoin: a reader attaches, then loads, and of the deliveries uses only those above the loaded head. It misses no publication and has none
// twice, however many are published meanwhile.
func checkJoin(s *suite, mode push.Mode) {
	s.open("j", mode, push.History{})
	var all ledger
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := s.burst(&all, "j", i, 7); err != nil {
				stopped <- err
				return
			}
		}
	}()
	joins := make([]join, 0, 15)
	for range cap(joins) {
		joins = append(joins, s.join("j", "j:3"))
	}
	close(stop)
	s.must("publish beside", <-stopped)

	var mine []broker.Message // of the channel
	for _, m := range all.ordered() {
		if m.Channel == "j:3" {
			mine = append(mine, m)
		}
	}
	for _, j := range joins {
		j.expect(s, mode, mine)
	}
}

// join is the state of a channel in a reader that has joined while others published.
type join struct {
	history broker.History
	have    []broker.Message
	end     uint64 // the offset up to which have should be complete
}

// join attaches, loads and waits for deliveries.
func (s *suite) join(namespace, channel string) join {
	s.Helper()
	r := newRecorder()
	a := s.attach(namespace, r)
	loaded, h := s.load(channel)
	if start := a.Start(); h.Head < start.Offset || h.Epoch != start.Epoch {
		s.Errorf("loaded up to %d in epoch %q, having been attached from %v", h.Head, h.Epoch, start)
	}
	r.await(s, 10)
	r.awaitOffset(s, h.Head+1)
	s.detach(a)
	j := join{history: h}
	for _, p := range loaded {
		j.have = append(j.have, broker.Message{Channel: channel, Publication: p})
	}
	for _, m := range r.recorded(s) {
		if m.Channel == channel && m.Offset > h.Head {
			j.have = append(j.have, m)
		}
		j.end = m.Offset
	}
	return j
}

// expect fails the check unless the reader has all publications up to its end.
func (j join) expect(s *suite, mode push.Mode, all []broker.Message) {
	s.Helper()
	n, _ := slices.BinarySearchFunc(all, j.end+1, func(m broker.Message, offset uint64) int {
		if m.Offset < offset {
			return -1
		}
		return 1
	})
	want, have := all[:n], j.have
	if mode != push.Stream {
		want, have = newest(want), newest(have)
	}
	describeAll := func(messages []broker.Message) (offsets []uint64) {
		for _, m := range messages {
			offsets = append(offsets, m.Offset)
		}
		return offsets
	}
	if !slices.EqualFunc(have, want, func(a, b broker.Message) bool { return same(&a.Publication, &b.Publication) }) {
		s.Errorf("joined at %d with a floor of %d: has %v, want %v",
			j.history.Head, j.history.Floor, describeAll(have), describeAll(want))
	}
}

// newest returns the newest message of each key, in offset order.
func newest(messages []broker.Message) []broker.Message {
	rows := make(map[string]broker.Message)
	for _, m := range messages {
		rows[m.Key] = m
	}
	l := ledger{messages: slices.Collect(maps.Values(rows))}
	return l.ordered()
}

// checkPublishWhileLoading: visit may publish and load itself, and visits nothing above the head that the load returns.
func checkPublishWhileLoading(s *suite) {
	s.open("l", push.Stream, push.History{})
	for i := range 5 {
		s.set("l:a", "", fmt.Sprint(i))
	}
	var visited []push.Publication
	h, err := s.broker.Load(s.ctx, "l:a", broker.LoadOptions{}, func(m broker.Message) error {
		visited = append(visited, m.Publication)
		if n := len(visited); n <= 5 {
			s.set("l:a", "", fmt.Sprint("during ", n))
			if later, _ := s.load("l:a"); len(later) != 5+n {
				s.Errorf("%d publications loaded during visit %d, want %d", len(later), n, 5+n)
			}
		}
		return nil
	})
	s.must("load", err)
	if len(visited) < 5 || visited[len(visited)-1].Offset > h.Head {
		s.Errorf("%d publications visited, the head is %d", len(visited), h.Head)
	}
}

// checkLoadWhatWasDelivered: a follower that loads a channel on delivery of a message finds that message, or in a table one that superseded it,
// however many others publish.
func checkLoadWhatWasDelivered(s *suite, mode push.Mode) {
	s.open("l", mode, push.History{})
	reader := &loadingRecorder{recorder: newRecorder(), suite: s, mode: mode}
	s.attach("l", reader)
	var all ledger
	s.concurrently(4, func(i int) error { return s.burst(&all, "l", i, 60) })
	want := all.ordered()
	if s.harness.Conflates && mode == push.Table {
		reader.awaitOffset(s, want[len(want)-1].Offset)
		reader.expectNewest(s, want)
		return
	}
	reader.await(s, len(want))
	reader.expect(s, want)
}

// expectNewest fails the check unless messages of want were delivered in their order, and among them the newest of each row.
func (r *recorder) expectNewest(s *suite, want []broker.Message) {
	s.Helper()
	isNewest := make(map[uint64]bool)
	rows := make(map[[2]string]uint64)
	for _, m := range want {
		row := [2]string{m.Channel, m.Key}
		isNewest[rows[row]], isNewest[m.Offset] = false, true
		rows[row] = m.Offset
	}
	got := r.recorded(s)
	for _, m := range want {
		switch {
		case len(got) > 0 && got[0].Channel == m.Channel && same(&got[0].Publication, &m.Publication):
			got = got[1:]
		case isNewest[m.Offset]:
			s.Fatalf("%s was not delivered, what was delivered goes on with %v", describe(&m), describeFirst(got))
		}
	}
	if len(got) > 0 {
		s.Errorf("%s was delivered, but not published after the others", describe(&got[0]))
	}
}

// loadingRecorder is a recorder that, on each delivery, loads the channels of the delivered messages.
type loadingRecorder struct {
	*recorder
	suite *suite
	mode  push.Mode
}

// Deliver implements broker.Follower.
func (c *loadingRecorder) Deliver(batch []broker.Message) {
	for _, m := range batch {
		if trouble := c.find(m); trouble != "" {
			c.note(trouble)
		}
	}
	c.recorder.Deliver(batch)
}

// find loads the channel of a delivered message, and returns a description of the problem, "" if there is none. The broker's goroutine calls it,
// which must not end the check.
func (c *loadingRecorder) find(m broker.Message) string {
	isThere := false
	h, err := c.suite.broker.Load(c.suite.ctx, m.Channel, broker.LoadOptions{}, func(p broker.Message) error {
		isThere = isThere || p.Offset == m.Offset || p.Offset > m.Offset && p.Key == m.Key && c.mode != push.Stream
		return nil
	})
	switch {
	case err != nil:
		return fmt.Sprintf("load when a message was delivered: %v", err)
	case h.Head < m.Offset:
		return fmt.Sprintf("offset %d was delivered, the head that was loaded then is %d", m.Offset, h.Head)
	case !isThere:
		return fmt.Sprintf("offset %d was delivered, but not loaded then", m.Offset)
	}
	return ""
}

// checkVisitError: an error from visit ends the load and is returned.
func checkVisitError(s *suite) {
	s.open("l", push.Stream, push.History{})
	for range 3 {
		s.set("l:a", "", "x")
	}
	enough, visits := errors.New("enough"), 0
	_, err := s.broker.Load(s.ctx, "l:a", broker.LoadOptions{}, func(broker.Message) error {
		visits++
		if visits == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || visits != 2 {
		s.Errorf("load ended with %v after %d visits, want %v after 2", err, visits, enough)
	}
	s.set("l:a", "", "afterwards")
}
