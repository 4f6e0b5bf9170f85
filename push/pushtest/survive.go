package pushtest

import (
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// checkCrash: acknowledged publications survive the end of the process with the store, in the same epoch, and once.
func checkCrash(s *suite) {
	openAll := func() {
		s.open("c", push.Stream, push.History{})
		s.open("t", push.Table, push.History{})
	}
	openAll()
	row, gone := s.set("t:1", "a", "1"), s.remove("t:1", "b")
	keyed := s.keyed("t:2", "x", "key")
	r := newRecorder()
	s.attach("c", r)
	c := s.begin("c")
	defer c.end()
	c.order(1000)
	c.await(300)
	old, before, rows := s.broker, s.head("c"), s.head("t")
	s.broker = newInterested(s.harness.Crash())
	c.end()
	s.within("close after a crash", func() { _ = old.Close() }) // its result is ignored, because its server was killed
	r.release()
	openAll()
	head := s.head("c")
	if head.Epoch != before.Epoch || head.Offset < before.Offset {
		s.Errorf("the head is %v after a crash, and was %v or more", head, before)
	}
	if again := s.head("t"); again != rows {
		s.Errorf("the head of the table is %v after a crash, want %v", again, rows)
	}
	c.check("loaded after a crash", c.loaded())
	for _, m := range r.recorded(s) {
		if m.Offset > head.Offset {
			s.Errorf("offset %d was delivered before the crash, the head is %d after it", m.Offset, head.Offset)
		}
	}
	s.expectLoad("t:1", row, gone)
	if again := s.keyed("t:2", "y", "key"); again != keyed {
		s.Errorf("the key answers %v after a crash, want %v", again, keyed)
	}
	next := s.set("c:next", "", "next")
	if next.Offset <= head.Offset {
		s.Errorf("published at %d after a crash, the head was %v", next.Offset, head)
	}
	s.expectLoad("c:next", next)
}

// checkRewind: in an older copy of the store, offsets may be assigned again to other publications, so the epoch has to change. Publications
// acknowledged before the copy was made are there.
func checkRewind(s *suite) {
	openAll := func() {
		s.open("s", push.Stream, push.History{})
		s.open("t", push.Table, push.History{})
	}
	openAll()
	first, second := s.set("s:1", "", "1"), s.set("s:1", "", "2")
	row, gone := s.set("t:1", "a", "1"), s.remove("t:1", "b")
	s.harness.Snapshot()
	s.set("s:1", "", "lost")
	s.keyed("s:2", "lost", "key")
	s.set("t:1", "a", "lost")
	known := map[string]push.Position{"s": s.head("s"), "t": s.head("t")}
	s.close()
	s.broker = newInterested(s.harness.Rewind())
	openAll()
	heads := make(map[string]push.Position)
	for name, before := range known {
		heads[name] = s.head(name)
		if heads[name].Epoch == before.Epoch {
			s.Errorf("the head of %s is %v in an older copy of the store, and %v was known", name, heads[name], before)
		}
	}
	s.expectLoad("t:1", row, gone)
	if h := s.expectLoad("s:1", first, second); h.Epoch != heads["s"].Epoch {
		s.Errorf("loaded in epoch %q, the head is %v", h.Epoch, heads["s"])
	}
	r := newRecorder()
	if start := s.attach("s", r).Start(); start != heads["s"] {
		s.Errorf("attached from %v, the head is %v", start, heads["s"])
	}
	// The key belongs to a publication that was lost.
	pos := s.keyed("s:2", "new", "key")
	if pos.Epoch != heads["s"].Epoch || pos.Offset <= heads["s"].Offset {
		s.Errorf("published at %v, the head was %v", pos, heads["s"])
	}
	stored := broker.Message{Channel: "s:2", Publication: push.Publication{Offset: pos.Offset, Data: []byte("new")}}
	s.expectLoad("s:2", stored)
	next := s.set("s:1", "", "3")
	s.expectLoad("s:1", first, second, next)
	r.await(s, 2)
	r.expect(s, []broker.Message{stored, next})
	if s.harness.Reopen == nil {
		return
	}
	s.close()
	s.broker = newInterested(s.harness.Reopen())
	openAll()
	if head := s.head("s"); head != (push.Position{Epoch: pos.Epoch, Offset: next.Offset}) {
		s.Errorf("the head is %v after a restart, want %d in epoch %q", head, next.Offset, pos.Epoch)
	}
}

// checkReplace: if the store is lost while the broker is connected, followers are reset, and everything continues in another epoch.
func checkReplace(s *suite) {
	s.open("s", push.Stream, push.History{})
	r := newRecorder()
	r.takesResets = true
	s.attach("s", r)
	e := s.listen("node-a")
	before := []broker.Message{s.set("s:1", "", "lost"), s.set("s:1", "", "lost too")}
	pos := s.keyed("s:2", "lost", "again new")
	before = append(before, broker.Message{Channel: "s:2", Publication: push.Publication{Offset: pos.Offset, Data: []byte("lost")}})
	r.await(s, len(before))
	r.expect(s, before)
	s.harness.Replace()

	stored, now := s.publishAgain("s:2", "new") // its key was used before
	if now.Epoch == pos.Epoch || now.Epoch == "" {
		s.Errorf("published at %v after the store was lost, and at %v before", now, pos)
	}
	start := r.awaitReset(s)
	if start.Epoch != now.Epoch {
		s.Errorf("the follower was told of a life that begins at %v, but it is published at %v", start, now)
	}
	s.expectLoad("s:1")
	h := s.expectLoad("s:2", stored)
	if h.Epoch != now.Epoch || h.Head < stored.Offset {
		s.Errorf("loaded up to %d in epoch %q after the store was lost, published at %v", h.Head, h.Epoch, now)
	}
	want := []broker.Message{s.set("s:1", "", "1"), s.set("s:2", "", "2"), s.set("s:1", "", "3")}
	if stored.Offset > start.Offset {
		want = append([]broker.Message{stored}, want...)
	}
	r.awaitOffset(s, want[len(want)-1].Offset)
	r.expect(s, want)
	for _, life := range r.lives() {
		if life.Epoch == pos.Epoch || life.Epoch == "" {
			s.Errorf("the follower was told of a life that begins at %v, when %v was lost", life, pos)
		}
	}
	late := newRecorder()
	if start := s.attach("s", late).Start(); start != s.head("s") || start.Epoch != now.Epoch {
		s.Errorf("attached from %v, the head is %v, it was published at %v", start, s.head("s"), now)
	}
	last := s.set("s:1", "", "4")
	late.awaitOffset(s, last.Offset)
	late.expect(s, []broker.Message{last})
	s.hearsAgain(e, "node-a", "after the store was lost")
	s.leasesAgain("lease")
}

// awaitReset waits until the follower was reset, and returns the start of its last reset.
func (r *recorder) awaitReset(s *suite) push.Position {
	s.Helper()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if lives := r.lives(); len(lives) > 0 {
			return lives[len(lives)-1]
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.Fatalf("the follower was not told of a new life")
		}
	}
}

// lives returns the starts of all resets of the follower.
func (r *recorder) lives() []push.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.resets)
}
