package slowness_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/slowness"
)

const ms = int64(time.Millisecond)

// Three take-overs within a second make all sessions slow, until there were not as many for two seconds. Turns on goroutines that take long
// count as well, but not those of sessions that are slow by themselves.
func TestAll(t *testing.T) {
	var all slowness.All
	slow := func(why string, at int64, want bool) {
		t.Helper()
		if all.Slow(at*ms) != want {
			t.Errorf("%s, at %d: slow %v", why, at, !want)
		}
	}
	for i := range int64(20) {
		all.TookOver(ms + i*501*ms)
	}
	slow("some take-overs now and then", 10000, false)
	for i := range int64(3) {
		all.TookOver(20000*ms + i*500*ms)
	}
	slow("three", 21000, true)
	slow("three", 22999, true)
	slow("three", 23000, false)
	turn := func(one *slowness.One, began, took int64) { one.Judge(&all, false, began*ms, (began+took)*ms) }
	for i := range int64(3) {
		turn(new(slowness.One), 22000+i, 2)
	}
	slow("long turns", 24003, true)
	slow("long turns", 24004, false)
	var one slowness.One
	for i := range int64(10) {
		turn(&one, 30000+i, 5)
	}
	if !one.Slow() {
		t.Error("a long turn in one of four does not make it slow")
	}
	slow("long turns of one that is slow", 30020, false)
	for range 3 {
		all.TookOver(50000 * ms)
	}
	all.TookOver(49000 * ms) // the clock was read before
	slow("the latest", 51999, true)
}

// What is seen again is seen for as long as somebody looked, and what is new for no time.
func TestSight(t *testing.T) {
	var sight slowness.Sight
	for i, v := range []struct {
		stamp     uint64
		now, want int64
	}{
		{3, 1000 * ms, 0},
		{3, 1001 * ms, ms},
		{3, 1002*ms + 1, 2*ms + 1},
		{3, 2000 * ms, 4*ms + 1},
		{5, 2001 * ms, 0},
		{3, 2001*ms + 1, 0},
		{3, 2001*ms + 2, 1},
	} {
		if got := sight.Look(v.stamp, v.now); got != v.want {
			t.Errorf("look %d: seen for %d ns, want %d", i, got, v.want)
		}
	}
}

// A session that was taken over in one of four turns, or within two seconds after the time before, is slow until four turns in a row were quick,
// and until four times as many when that happens less than two seconds for each of these after the time before. One that is free to take its time
// has only quick turns.
func TestOne(t *testing.T) {
	var all slowness.All
	var one slowness.One
	if one.Slow() {
		t.Fatal("slow from the start")
	}
	turns := func(n int, isFree bool, took int64) {
		for range n {
			one.Judge(&all, isFree, 0, took)
		}
	}
	comesBack := func(why string, after int) {
		t.Helper()
		turns(after-1, false, ms-1)
		turns(1, false, ms)
		turns(after-1, false, ms-1)
		if !one.Slow() {
			t.Errorf("%s: quick after %d turns in a row", why, after-1)
		}
		if turns(1, false, ms-1); one.Slow() {
			t.Errorf("%s: slow after %d", why, after)
		}
	}
	now := 5 * ms
	lost := func(turns int, after int64) {
		for range turns {
			one.Begin()
		}
		now += after
		one.Lost(now)
	}
	seldom := func(why string) {
		t.Helper()
		if one.Slow() {
			t.Errorf("%s: slow", why)
		}
	}
	lost(4, 0)
	seldom("in the fourth turn")
	lost(4, 2000*ms)
	seldom("two seconds later")
	last := int64(1)
	for _, after := range []int64{4, 16, 64, 128, 128} {
		lost(1000, 2000*ms*last-1)
		comesBack("again", int(after))
		last = after
	}
	lost(4, 2000*ms*128)
	seldom("after a while")
	lost(3, 2000*ms)
	comesBack("in the third turn", 4)
	lost(3, 2000*ms*4)
	comesBack("in the third turn once more", 4)

	lost(0, 2000*ms*4)
	turns(4, true, 5*ms)
	if one.Slow() {
		t.Error("one that is free to take its time is slow")
	}
}
