package slowness_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/slowness"
)

const ms = int64(time.Millisecond)

// Eight take-overs within a tenth of a second make all sessions slow, for a second after the last turn that took long.
func TestAll(t *testing.T) {
	var all slowness.All
	for i := range int64(20) {
		all.TookOver(ms + i*20*ms) // five in a tenth of a second
	}
	if all.Slow(400 * ms) {
		t.Fatal("slow after some take-overs now and then")
	}
	for i := range int64(8) {
		all.TookOver(1000*ms + i*10*ms)
	}
	for at, want := range map[int64]bool{1070: true, 2069: true, 2070: false} {
		if all.Slow(at*ms) != want {
			t.Errorf("at %d: slow %v", at, !want)
		}
	}
	var one slowness.One
	one.Judge(&all, false, 2000*ms, 2003*ms)
	for at, want := range map[int64]bool{2070: true, 3002: true, 3003: false} {
		if all.Slow(at*ms) != want {
			t.Errorf("after a long turn, at %d: slow %v", at, !want)
		}
	}
	one.Judge(&all, false, 4000*ms, 4003*ms)
	if all.Slow(4004 * ms) {
		t.Error("a long turn made all slow that were not")
	}
}

// For half a second after a take-over another is to be expected.
func TestLately(t *testing.T) {
	var all slowness.All
	if all.Lately(ms) {
		t.Error("a take-over is expected from the start")
	}
	all.TookOver(1000 * ms)
	for at, want := range map[int64]bool{1000: true, 1499: true, 1500: false} {
		if all.Lately(at*ms) != want {
			t.Errorf("at %d: expected %v", at, !want)
		}
	}
	all.Expect(2000 * ms)
	all.TookOver(1900 * ms)
	for at, want := range map[int64]bool{2499: true, 2500: false} {
		if all.Lately(at*ms) != want {
			t.Errorf("at %d: expected %v", at, !want)
		}
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

// A turn that was taken over counts once when it takes a millisecond, whether it ends or not.
func TestTurns(t *testing.T) {
	const began = 1000 * ms
	for _, v := range []struct {
		name   string
		ended  int64 // 0 if not while it is looked at
		counts bool
	}{
		{"short", began + ms - 1, false},
		{"long", began + ms, true},
		{"goes on", 0, true},
	} {
		var all slowness.All
		var turn slowness.Turn
		turn.Lost(began)
		var list slowness.Turns
		list.Add(&turn)
		if others := list.Count(&all, began+ms-1); !others || all.Lately(began+ms) {
			t.Errorf("%s: it counts too early", v.name)
		}
		if v.ended > 0 {
			if short := turn.Ended(&all, v.ended); short == v.counts {
				t.Errorf("%s: it is short: %t", v.name, short)
			}
		}
		others := list.Count(&all, began+ms)
		if got := all.Lately(began + ms); got != v.counts || others {
			t.Errorf("%s: it counts %v, and is remembered: %t", v.name, got, others)
		}
		if turn.Ended(&all, began+600*ms) || all.Lately(began+600*ms) { // when it has counted before, no more
			t.Errorf("%s: it counts again", v.name)
		}
	}
	var all slowness.All
	var turn slowness.Turn
	turn.Lost(0)
	if turn.Ended(&all, 2000*ms) || all.Lately(2000*ms) {
		t.Error("a turn that was taken over without counting counts")
	}
}

// A turn that was taken over and was short leaves its session as it was, but for one in five.
func TestForgive(t *testing.T) {
	var one slowness.One
	lose := func(now int64) (was slowness.One) {
		was = one
		one.Lost(now)
		return was
	}
	for i := range int64(15) {
		was := lose((1000 + i) * ms)
		if !one.Slow() {
			t.Fatalf("take-over %d in a row does not make it slow", i+1)
		}
		if one.Forgive(was); one.Slow() != (i >= 4) {
			t.Errorf("slow %t after %d short turns", one.Slow(), i+1)
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
