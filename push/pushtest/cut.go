package pushtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

func cuts(h Harness) bool { return h.Cut != nil }

// checkCut: however often the connection to the server breaks, a follower gets every publication in order and none twice, acknowledged
// publications are stored, and a publication that is repeated with its idempotency key is stored once.
func checkCut(s *suite) {
	s.open("c", push.Stream, push.History{})
	first, late := newRecorder(), newRecorder()
	start := s.attach("c", first).Start()
	c := s.begin("c")
	defer c.end()
	for i := range 5 {
		c.order(200)
		c.await(200*i + 50)
		s.harness.Cut()
		if i == 2 {
			s.harness.Cut() // while the broker reconnects
		}
		c.await(200*i + 100)
	}
	var lateStart push.Position
	s.again("attach after cuts", func() error {
		a, err := s.broker.Attach(s.ctx, broker.Partition{Namespace: "c"}, late)
		if err == nil {
			lateStart = a.Start()
		}
		return err
	})
	if s.harness.WantedOnly { // what was published before it wanted the channels is not for it
		s.again("head after cuts", func() error {
			head, err := s.broker.Head(s.ctx, broker.Partition{Namespace: "c"})
			lateStart = head
			return err
		})
	}
	c.order(100)
	s.harness.Cut()
	c.await(5*200 + 100)
	c.end()

	end, pos := s.publishAgain("c:end", "end")
	if pos.Epoch != start.Epoch || lateStart.Epoch != start.Epoch {
		s.Errorf("the epoch is %q after cuts, and was %q", pos.Epoch, start.Epoch)
	}
	first.awaitOffset(s, end.Offset)
	late.awaitOffset(s, end.Offset)
	given := c.given(first, end.Offset)
	c.check("delivered", given)
	c.check("loaded", c.loaded())
	afterwards := slices.DeleteFunc(slices.Clone(given), func(m broker.Message) bool { return m.Offset <= lateStart.Offset })
	late.expectBetween(s, lateStart.Offset, end.Offset, append(afterwards, end))
}

// given returns the messages of a campaign that a recorder got, up to an offset.
func (c *campaign) given(r *recorder, last uint64) []broker.Message {
	c.Helper()
	var out []broker.Message
	for _, m := range r.recorded(c.suite) {
		if m.Offset < last {
			out = append(out, m)
		}
	}
	return out
}

// expectBetween is expect for the messages above an offset and up to another one. Publications that were given up may be stored later, above it.
func (r *recorder) expectBetween(s *suite, above, last uint64, want []broker.Message) {
	s.Helper()
	got := slices.DeleteFunc(r.recorded(s), func(m broker.Message) bool { return m.Offset <= above || m.Offset > last })
	for i := range min(len(got), len(want)) {
		if got[i].Channel != want[i].Channel || !same(&got[i].Publication, &want[i].Publication) {
			s.Fatalf("message %d of %d is %s, want %s", i, len(got), describe(&got[i]), describe(&want[i]))
		}
	}
	if len(got) != len(want) {
		s.Fatalf("%d messages were delivered, want %d", len(got), len(want))
	}
}

// checkCutServices: after cuts, listeners get control messages again without calling Listen again, and leases continue.
func checkCutServices(s *suite) {
	e := s.listen("node-a")
	s.lease("kept", "before", time.Hour)
	s.lease("ends", "before", 5*time.Second)
	for i := range 3 {
		s.harness.Cut()
		s.hearsAgain(e, "node-a", fmt.Sprint("after cut ", i))
		s.leasesAgain(fmt.Sprint("lease ", i))
	}
	if got := s.leases("kept"); got["kept"] != "before" {
		s.Errorf("after cuts the leases are %q", got)
	}
	s.eventually("a lease that is not renewed ends", func() bool {
		if s.harness.Advance != nil {
			s.advance(time.Second)
		}
		return len(s.leases("ends")) == 0
	})
}

// hearsAgain sends a control message to a node until the node gets it: messages sent meanwhile may be lost.
func (s *suite) hearsAgain(e *controlListener, node, text string) {
	s.Helper()
	s.eventually("control messages are heard again", func() bool {
		_ = s.broker.Tell(s.ctx, node, []byte(text)) // the server may not be reachable yet
		e.mu.Lock()
		defer e.mu.Unlock()
		return slices.Contains(e.heard, text)
	})
	if e.overlap.Load() {
		s.Errorf("%s was given several messages at once", node)
	}
}

// leasesAgain puts a lease until that succeeds, and lists it.
func (s *suite) leasesAgain(key string) {
	s.Helper()
	s.again("put a lease", func() error {
		return s.broker.PutLease(s.ctx, broker.Lease{Key: key, Value: []byte("new")}, time.Hour)
	})
	s.again("list leases", func() error {
		list, err := s.broker.ListLeases(s.ctx, key)
		if err == nil && (len(list) != 1 || string(list[0].Value) != "new") {
			s.Fatalf("the leases are %q, want %q", list, key)
		}
		return err
	})
}
