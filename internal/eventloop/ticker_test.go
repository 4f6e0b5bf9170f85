package eventloop_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A ticker calls its function as long as that finds something. After ten calls in a row without a finding, it asks whether all is quiet. If so
// it ends, and can be started again; otherwise it continues.
func TestTicker(t *testing.T) {
	looked, asked := make(chan bool), make(chan bool) // the results of the ticker's two functions
	w := eventloop.NewTicker(time.Microsecond, func() bool { return testwait.Hold(t, looked) }, func() bool { return testwait.Hold(t, asked) })
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
		w.Start()
		w.Start()
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

// The ticker ends after its stop, even if its function still finds something.
func TestTickerStops(t *testing.T) {
	looks := make(chan bool)
	w := eventloop.NewTicker(time.Microsecond, func() bool { looks <- true; return true }, func() bool { return true })
	w.Start()
	testwait.Receive(t, looks)
	w.Stop()
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
