package pushtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push/broker"
)

// controlListener is a listener for control messages that records them.
type controlListener struct {
	mu      sync.Mutex
	heard   []string
	changed chan struct{}
	busy    atomic.Bool
	overlap atomic.Bool
	stop    func()
}

func (s *suite) listen(node string) *controlListener {
	s.Helper()
	e := &controlListener{changed: make(chan struct{})}
	stop, err := s.broker.Listen(s.ctx, node, func(payload []byte) {
		if e.busy.Swap(true) {
			e.overlap.Store(true)
		}
		e.mu.Lock()
		e.heard = append(e.heard, string(payload))
		close(e.changed)
		e.changed = make(chan struct{})
		e.mu.Unlock()
		e.busy.Store(false)
	})
	s.must("listen", err)
	e.stop = stop
	return e
}

// expect waits for as many messages as there are in want, and fails the check unless they are equal.
func (e *controlListener) expect(s *suite, who string, want ...string) {
	s.Helper()
	for {
		e.mu.Lock()
		heard, changed := slices.Clone(e.heard), e.changed
		e.mu.Unlock()
		if len(heard) < len(want) {
			select {
			case <-changed:
				continue
			case <-s.ctx.Done():
			}
		}
		if !slices.Equal(heard, want) {
			s.Fatalf("%s heard %.200q, want %.200q", who, heard, want)
		}
		if e.overlap.Load() {
			s.Errorf("%s was given several messages at once", who)
		}
		return
	}
}

// tell sends a control message, and then overwrites the payload, which belongs to the caller again.
func (s *suite) tell(node, text string) {
	s.Helper()
	payload := []byte(text)
	s.must("tell", s.broker.Tell(s.ctx, node, payload))
	clear(payload)
}

// checkControl: control messages reach one node or all, the sender included, in the order in which they were sent.
func checkControl(s *suite) {
	a, b := s.listen("node-a"), s.listen("node-b")
	var toA, toB []string
	for i := range 30 {
		all, one := fmt.Sprint("all ", i), fmt.Sprint("one ", i)
		s.tell("", all)
		toA, toB = append(toA, all), append(toB, all)
		if i%2 == 0 {
			s.tell("node-a", one)
			toA = append(toA, one)
		} else {
			s.tell("node-b", one)
			toB = append(toB, one)
		}
		s.tell("node-c", "nobody")
		s.tell("node", "nobody")
	}
	large := strings.Repeat("\x00\xff", 10_000)
	s.tell("node-a", large)
	s.tell("node-a", "")
	a.expect(s, "node-a", append(toA, large, "")...)
	b.expect(s, "node-b", toB...)
	s.within("stop", a.stop)
	s.within("stop", b.stop)
}

// checkControlStop: a listener that was stopped gets no more messages, and the others do. A node may listen again.
func checkControlStop(s *suite) {
	a, b := s.listen("node-a"), s.listen("node-b")
	s.tell("", "before")
	a.expect(s, "node-a", "before")
	s.within("stop", a.stop)
	s.within("stop", a.stop)
	s.tell("node-a", "nobody")
	want := []string{"before"}
	for i := range 200 { // more than a queue holds
		text := fmt.Sprint("between ", i)
		s.tell("", text)
		want = append(want, text)
	}
	again := s.listen("node-a")
	s.tell("", "after")
	want = append(want, "after")
	b.expect(s, "node-b", want...)
	again.expect(s, "node-a", "after")
	a.expect(s, "node-a before", "before")

	// A stop waits for the handler that is running.
	entered, open := make(chan struct{}), make(chan struct{})
	var running atomic.Bool
	stop, err := s.broker.Listen(s.ctx, "node-d", func([]byte) {
		running.Store(true)
		close(entered)
		<-open
		running.Store(false)
	})
	s.must("listen", err)
	s.tell("node-d", "x")
	s.wait("the handler", entered)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
		if running.Load() {
			s.Errorf("stop returned while the handler was running")
		}
	}()
	s.tell("node-b", "meanwhile")
	b.expect(s, "node-b", append(want, "meanwhile")...)
	close(open)
	s.wait("stop", stopped)
}

// leases returns the live leases below a prefix.
func (s *suite) leases(prefix string) map[string]string {
	s.Helper()
	list, err := s.broker.ListLeases(s.ctx, prefix)
	s.must("list leases", err)
	if !slices.IsSortedFunc(list, func(a, b broker.Lease) int { return strings.Compare(a.Key, b.Key) }) {
		s.Errorf("leases are not ordered by key: %q", list)
	}
	out := make(map[string]string)
	for _, l := range list {
		out[l.Key] = string(l.Value)
	}
	if len(out) != len(list) {
		s.Errorf("leases are listed twice: %q", list)
	}
	return out
}

func (s *suite) lease(key, value string, ttl time.Duration) {
	s.Helper()
	payload := []byte(value)
	s.must("put a lease", s.broker.PutLease(s.ctx, broker.Lease{Key: key, Value: payload}, ttl))
	clear(payload)
}

// checkLeases: leases are listed by prefix, replaced and dropped, whatever their keys look like.
func checkLeases(s *suite) {
	if got := s.leases(""); len(got) != 0 {
		s.Errorf("there are leases before the first: %q", got)
	}
	channel := "presence/chat:room.1 *>\x00"
	want := map[string]string{"node/1": "one", "node/2": "", "node/10": "ten", channel + "a": "\x00\xff", channel + "b": "b"}
	for key, value := range want {
		s.lease(key, "before", time.Hour)
		s.lease(key, value, time.Hour)
	}
	for _, name := range names {
		s.lease("names/"+name, name, time.Hour)
	}
	expect := func(prefix string, keys ...string) {
		s.Helper()
		got := s.leases(prefix)
		for _, key := range keys {
			if value, ok := got[key]; !ok || value != want[key] {
				s.Errorf("lease %q below %q is %q (%t), want %q", key, prefix, value, ok, want[key])
			}
		}
		if len(got) != len(keys) {
			s.Errorf("%d leases below %q, want %d", len(got), prefix, len(keys))
		}
	}
	expect("node/", "node/1", "node/2", "node/10")
	expect("node/1", "node/1", "node/10")
	expect(channel, channel+"a", channel+"b")
	expect("presence/chat:room?1")
	expect("none/")
	if got := s.leases("names/"); len(got) != len(names) {
		s.Errorf("%d leases with odd names, want %d", len(got), len(names))
	}
	s.must("drop a lease", s.broker.DropLease(s.ctx, "node/1"))
	s.must("drop it again", s.broker.DropLease(s.ctx, "node/1"))
	expect("node/", "node/2", "node/10")
	ctx, cancel := context.WithCancel(s.ctx)
	s.must("put a lease", s.broker.PutLease(ctx, broker.Lease{Key: "node/2"}, time.Hour))
	cancel()
	expect("node/", "node/2", "node/10")
	if err := s.broker.PutLease(s.ctx, broker.Lease{Key: "k"}, 0); err == nil {
		s.Errorf("a lease without a time to live was accepted")
	}
}

// checkLeaseExpiry: a lease that is renewed outlives one that is not.
func checkLeaseExpiry(s *suite) {
	const ttl = 2 * time.Second
	s.lease("kept", "x", ttl)
	s.lease("left", "x", ttl)
	s.lease("long", "x", time.Hour)
	if got := s.leases(""); len(got) != 3 {
		s.Errorf("%d leases, want 3", len(got))
	}
	s.eventually("a lease ends", func() bool {
		s.lease("kept", "x", ttl)
		if s.harness.Advance != nil {
			s.advance(100 * time.Millisecond)
		}
		_, isLeft := s.leases("")["left"]
		return !isLeft
	})
	if got := s.leases(""); len(got) != 2 {
		s.Errorf("%d leases, want those that were renewed or long", len(got))
	}
}

// checkLeaseClock: a lease lives for its time after it was last renewed, and at most a second longer.
func checkLeaseClock(s *suite) {
	const ttl = 10 * time.Second
	alive := func(want bool) {
		s.Helper()
		if got := s.leases("k"); (len(got) == 1) != want {
			s.Errorf("the lease lives: %t, want %t", !want, want)
		}
	}
	s.lease("k", "x", ttl)
	s.advance(9 * time.Second)
	alive(true)
	s.lease("k", "x", ttl)
	s.advance(9 * time.Second)
	alive(true)
	s.advance(2100 * time.Millisecond)
	alive(false)
	s.lease("k", "x", ttl)
	alive(true)
	s.lease("k", "x", time.Second)
	s.advance(2100 * time.Millisecond)
	alive(false)
}
