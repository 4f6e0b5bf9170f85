package timingwheel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/timingwheel"
)

func TestFakeClockStopsAtEachAlarm(t *testing.T) {
	clock := timingwheel.NewFakeClock(epoch)
	var shown []time.Duration
	note := func() { shown = append(shown, clock.Now().Sub(epoch)) }
	var again timingwheel.Alarm
	again = clock.AfterFunc(2*time.Second, func() { // goes off each two seconds
		note()
		again.Reset(2 * time.Second)
	})
	clock.AfterFunc(3*time.Second, note)
	moved := clock.AfterFunc(time.Second, note)
	if !moved.Reset(5 * time.Second) {
		t.Error("Reset says that the alarm was not set")
	}
	stopped := clock.AfterFunc(time.Second, note)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop says true not only the first time")
	}
	now := clock.AfterFunc(-time.Second, note)
	if shown != nil {
		t.Error("an alarm went off before Advance")
	}
	clock.Advance(0)
	if now.Stop() {
		t.Error("an alarm that was due at once has not gone off")
	}
	clock.Advance(6 * time.Second)
	want := []time.Duration{0, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second}
	if !slices.Equal(shown, want) {
		t.Errorf("alarms went off at %v, want %v", shown, want)
	}
	if got := clock.Now().Sub(epoch); got != 6*time.Second {
		t.Errorf("the clock shows %v", got)
	}
}
