package slowness_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/slowness"
)

const ms = int64(time.Millisecond)

// Three take-overs within a second make all sessions slow, until there were not as many for two seconds.
func TestAll(t *testing.T) {
	all := slowness.All{Count: 3, Within: time.Second}
	slow := func(why string, at int64, want bool) {
		t.Helper()
		if all.Slow(at*ms) != want {
			t.Errorf("%s, at %d: slow %v", why, at, !want)
		}
	}
	for i := range int64(20) {
		all.TookOver(ms+i*501*ms, 0)
	}
	slow("some take-overs now and then", 10000, false)
	for i := range int64(3) {
		all.TookOver(20000*ms+i*500*ms, 0)
	}
	slow("three", 21000, true)
	slow("three", 22999, true)
	slow("three", 23000, false)
	all.TookOver(20000*ms, 0) // the clock was read before
	slow("the latest", 22999, true)
	for i := range uint64(3) {
		all.TookOver(30000*ms, 1000+i*7000)
	}
	slow("fewer than one in 4096 turns", 30001, false)
	all.TookOver(30000*ms, 1000+4*4096)
	slow("one in 4096 turns", 30001, true)
}

// While all sessions are slow, a long turn on a goroutine counts as a take-over: of one that is not slow by itself, and was not taken over within
// the last second.
func TestJudgeCounts(t *testing.T) {
	all := slowness.All{Count: 3, Within: time.Second}
	turn := func(one *slowness.One, isFree bool, began, took int64) bool {
		return one.Judge(&all, isFree, began*ms, (began+took)*ms)
	}
	if turn(new(slowness.One), false, 500, 5) {
		t.Error("a long turn counts while not all are slow")
	}
	for range 3 {
		all.TookOver(1000*ms, 0)
	}
	var one slowness.One
	for _, v := range []struct {
		why         string
		isFree      bool
		began, took int64
		want        bool
	}{
		{"a short turn", false, 1000, 0, false},
		{"one that is free", true, 1001, 5, false},
		{"after two others", false, 1006, 0, false},
		{"a long turn in four", false, 1007, 1, true},
		{"a turn that began when all were slow", false, 2999, 2, true},
		{"the next long one of the same session", false, 2999, 3, false},
	} {
		if got := turn(&one, v.isFree, v.began, v.took); got != v.want {
			t.Errorf("%s: counts %t", v.why, got)
		}
	}
	if !one.Slow() {
		t.Error("two long turns within two seconds do not make it slow")
	}
	one = slowness.One{}
	for range 4 {
		one.Begin()
	}
	one.Lost(2000 * ms)
	if one.Slow() || one.IsNews(&all, 3000*ms) || !one.IsNews(&all, 3001*ms) || turn(&one, false, 2500, 5) {
		t.Error("it tells of others again before the second is over, or not then")
	}
	if !new(slowness.One).IsNews(&all, 1) {
		t.Error("the first time is no news")
	}
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
// and until four times as many when that happens less than two seconds for each of these after the time before; from 128 on also for two seconds.
// One that is free to take its time has only quick turns.
func TestOne(t *testing.T) {
	var all slowness.All
	var one slowness.One
	if one.Slow() {
		t.Fatal("slow from the start")
	}
	now := 5 * ms
	turns := func(n int, isFree bool, took int64) {
		for range n {
			one.Judge(&all, isFree, now, now+took)
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
		if after == 128 {
			if turns(200, false, ms-1); !one.Slow() {
				t.Errorf("%s: quick at once", why)
			}
			now += 2000*ms + 2
		}
		if turns(1, false, ms-1); one.Slow() {
			t.Errorf("%s: slow after %d", why, after)
		}
	}
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
		lost(1000, 1980*ms*last)
		comesBack("again", int(after))
		last = after
	}
	lost(4, 2001*ms*128)
	seldom("after a while")
	lost(3, 2001*ms)
	comesBack("in the third turn", 4)
	lost(3, 2001*ms*4)
	comesBack("in the third turn once more", 4)

	lost(0, 2001*ms*4)
	turns(4, true, 5*ms)
	if one.Slow() {
		t.Error("one that is free to take its time is slow")
	}
}
