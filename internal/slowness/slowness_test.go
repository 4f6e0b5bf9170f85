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

// A session that was taken over is slow until 64 turns in a row were quick. One that is free to take its time has only quick turns.
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
	one.Lost()
	turns(63, false, ms-1)
	turns(1, false, ms)
	turns(63, false, ms-1)
	if !one.Slow() {
		t.Error("quick after 63 turns in a row")
	}
	turns(1, false, ms-1)
	if one.Slow() {
		t.Error("slow after 64")
	}
	one.Lost()
	turns(64, true, 5*ms)
	if one.Slow() {
		t.Error("one that is free to take its time is slow")
	}
}
