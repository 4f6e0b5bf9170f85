package pulse_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A watch looks as long as there is something to see, asks whether all is quiet when there was nothing ten times in a row, goes on if it is not,
// ends if it is, and begins again.
func TestWatch(t *testing.T) {
	looked, asked := make(chan bool), make(chan bool) // it is told what it sees, and hears
	w := pulse.NewWatch(time.Microsecond, func() bool { return testwait.Hold(t, looked) }, func() bool { return testwait.Hold(t, asked) })
	look := func(seen bool, times int) {
		t.Helper()
		for range times {
			select {
			case looked <- seen:
			case asked <- false:
				t.Fatal("it asks whether all is quiet, and should look")
			case <-time.After(testwait.Bound):
				t.Fatal("it does not look")
			}
		}
	}
	answer := func(quiet bool) {
		t.Helper()
		select {
		case looked <- true:
			t.Fatal("it looks, and should ask whether all is quiet")
		case asked <- quiet:
		case <-time.After(testwait.Bound):
			t.Fatal("it does not ask whether all is quiet")
		}
	}
	for range 3 {
		if w.Running() {
			t.Fatal("it runs before it was called")
		}
		w.Ensure()
		w.Ensure()
		if !w.Running() {
			t.Error("it looks, and does not run")
		}
		look(false, 1) // at once; does not count
		look(true, 30)
		look(false, 9)
		look(true, 1)
		look(false, 10)
		answer(false)
		look(false, 10)
		answer(true)
		testwait.Return(t, w.Wait)
	}
}

// It ends when nothing will come any more, whatever there is to see.
func TestWatchEnds(t *testing.T) {
	looks := make(chan bool)
	w := pulse.NewWatch(time.Microsecond, func() bool { looks <- true; return true }, func() bool { return true })
	w.Ensure()
	testwait.Receive(t, looks)
	w.End()
	done := make(chan bool)
	go func() { w.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-looks:
		case <-done:
			open = false
		case <-time.After(testwait.Bound):
			t.Fatal("it does not end")
		}
	}
}
