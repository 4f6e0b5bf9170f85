package pushtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// checkRows: a table shows the newest publication of each key in offset order, removals included, and followers get all of them.
func checkRows(s *suite) {
	s.open("t", push.Table, push.History{})
	r := newRecorder()
	s.attach("t", r)
	a1 := s.set("t:1", "a", "1")
	empty := s.set("t:1", "", "the empty key is a row like any other")
	b1 := s.set("t:1", "b", "1")
	other := s.set("t:2", "a", "another channel")
	a2 := s.set("t:1", "a", "2")
	gone := s.remove("t:1", "b")
	absent := s.remove("t:1", "never there")
	h := s.expectLoad("t:1", empty, a2, gone, absent)
	s.floorBetween(h, 0, a1.Offset-1)
	s.expectLoad("t:2", other)
	b2 := s.set("t:1", "b", "back")
	s.expectLoad("t:1", empty, a2, absent, b2)
	r.await(s, 8)
	r.expect(s, []broker.Message{a1, empty, b1, other, a2, gone, absent, b2})
}

// checkRowsNeverAge: rows stay whatever their age. Removals expire, and the floor rises above them.
func checkRowsNeverAge(s *suite) {
	s.open("t", push.Table, push.History{Age: time.Minute, Size: 100})
	s.open("v", push.Value, push.History{Age: time.Minute, Size: 100})
	row := s.set("t:1", "a", "old")
	value := s.set("v:1", "", "old")
	s.set("t:1", "b", "1")
	gone := s.remove("t:1", "b")
	for range 10 {
		s.advance(24 * time.Hour)
		for i := range 20 {
			s.set(fmt.Sprintf("t:other%d", i), "", "x")
		}
	}
	h := s.expectLoad("t:1", row)
	s.floorBetween(h, gone.Offset, h.Head)
	s.expectLoad("v:1", value)
	s.remove("v:1", "")
	s.advance(time.Hour)
	s.expectLoad("v:1")
	s.expectLoad("t:1", row, s.set("t:1", "b", "2"))
}

// checkRowsOutliveAge: like checkRowsNeverAge by the broker's own clock, with an age so short that it passes several times during the check.
func checkRowsOutliveAge(s *suite) {
	openAll := func() {
		s.open("t", push.Table, push.History{Age: time.Second, Size: 100})
		s.open("v", push.Value, push.History{Age: time.Second})
	}
	openAll()
	row, value := s.set("t:1", "a", "old"), s.set("v:1", "", "old")
	young := s.set("t:2", "c", "younger")
	for range 2 {
		s.set("t:1", "b", "1")
		s.forgotten(s.remove("t:1", "b"), s.remove("t:2", "never there"))
		s.expectLoad("t:2", young)
		young = s.set("t:2", "c", "younger")
	}
	gone := s.remove("t:2", "c")
	s.forgotten(gone)
	s.expectLoad("t:1", row)
	s.expectLoad("v:1", value)
	if s.harness.Reopen != nil {
		s.close()
		s.broker = newInterested(s.harness.Reopen())
		openAll()
		s.expectLoad("t:1", row)
		s.expectLoad("v:1", value)
		h := s.expectLoad("t:2")
		s.floorBetween(h, gone.Offset, h.Head)
	}
	s.expectLoad("t:1", s.set("t:1", "a", "new"))
	s.forgotten(s.remove("v:1", ""))
}

// forgotten waits until removals, each the newest message of its channel, have expired, and checks that the floors rise above them.
func (s *suite) forgotten(removals ...broker.Message) {
	s.Helper()
	for _, gone := range removals {
		s.eventually("a removal is forgotten", func() bool {
			if s.harness.Advance != nil {
				s.advance(100 * time.Millisecond)
			}
			got, h := s.load(gone.Channel)
			isShown := slices.ContainsFunc(got, func(p push.Publication) bool { return p.Offset == gone.Offset })
			if !isShown && h.Floor < gone.Offset {
				s.Fatalf("the floor is %d, but the removal at %d is not shown any more", h.Floor, gone.Offset)
			}
			return !isShown
		})
	}
}

// checkRemovalsBySize: the newest removals are remembered, as many as History.Size, and the floor rises above the others.
func checkRemovalsBySize(s *suite) {
	s.open("t", push.Table, push.History{Size: 3})
	row := s.set("t:1", "row", "1")
	var gone []broker.Message
	for i := range 8 {
		s.set("t:1", fmt.Sprint(i), "1")
	}
	for i := range 8 {
		gone = append(gone, s.remove("t:1", fmt.Sprint(i)))
	}
	h := s.expectLoad("t:1", row, gone[5], gone[6], gone[7])
	s.floorBetween(h, gone[4].Offset, gone[5].Offset-1)
	again := s.set("t:1", "6", "2")
	// With one removal less there is room for another, and a broker may have kept it.
	oldest := 5
	if got, _ := s.load("t:1"); len(got) == 5 {
		oldest = 4
	}
	want := append([]broker.Message{row}, gone[oldest:6]...)
	h = s.expectLoad("t:1", append(want, gone[7], again)...)
	s.floorBetween(h, gone[oldest-1].Offset, gone[oldest].Offset-1)
}

// checkValue: a value channel has one row, whatever the keys.
func checkValue(s *suite) {
	s.open("v", push.Value, push.History{Size: 5})
	r := newRecorder()
	s.attach("v", r)
	first := s.set("v:1", "", "1")
	second := s.set("v:1", "key", "2")
	other := s.set("v:2", "", "3")
	h := s.expectLoad("v:1", second)
	s.floorBetween(h, 0, first.Offset-1)
	gone := s.remove("v:1", "")
	s.expectLoad("v:1", gone)
	s.expectLoad("v:2", other)
	back := s.set("v:1", "", "4")
	s.expectLoad("v:1", back)
	r.await(s, 5)
	r.expect(s, []broker.Message{first, second, other, gone, back})
}

// checkClear: no publication from before a clear is shown again, the floor is at the clear or above, and other channels keep their publications.
func checkClear(s *suite, mode push.Mode) {
	s.open("c", mode, push.History{Size: 50})
	r := newRecorder()
	s.attach("c", r)
	var all []broker.Message
	for i := range 5 {
		all = append(all, s.set("c:1", fmt.Sprint(i), "before"))
	}
	other := s.set("c:2", "", "stays")
	cleared := s.publish("c:1", push.Publication{Op: push.Clear})
	h := s.expectLoad("c:1")
	s.floorBetween(h, cleared.Offset, h.Head)
	after := s.set("c:1", "3", "after")
	h = s.expectLoad("c:1", after)
	s.floorBetween(h, cleared.Offset, after.Offset-1)
	s.floorBetween(s.expectLoad("c:2", other), 0, other.Offset-1)
	nothing := s.publish("c:3", push.Publication{Op: push.Clear})
	s.expectLoad("c:3")
	r.await(s, 9)
	r.expect(s, append(all, other, cleared, after, nothing))
}
