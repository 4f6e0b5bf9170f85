package crew_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/crew"
	"github.com/sluice-push/sluice/internal/testwait"
)

// TestKept: who has ended a piece of work does the next, and whoever is busy holds up nobody.
func TestKept(t *testing.T) {
	rested := make(chan struct{}, 100)
	hold := make(chan struct{})
	var done atomic.Int64
	c := crew.New(100, func(waits bool) {
		if waits {
			testwait.Hold(t, hold)
		}
		done.Add(1)
	}, func() { rested <- struct{}{} })
	c.Give(true) // blocks its goroutine
	for i := range int64(3) {
		c.Give(false)
		testwait.Receive(t, rested)
		if n := done.Load(); n != i+1 {
			t.Errorf("%d pieces are done, want %d", n, i+1)
		}
	}
	close(hold)
	testwait.Receive(t, rested)
	c.Dismiss(true)
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 4 {
		t.Errorf("%d pieces are done, want 4", n)
	}
}

// TestDismiss: those who are dismissed end, and there are others when there is work again.
func TestDismiss(t *testing.T) {
	rested := make(chan struct{}, 1)
	var done atomic.Int64
	c := crew.New(100, func(n int64) { done.Add(n) }, func() { rested <- struct{}{} })
	for range 3 {
		c.Give(1)
		testwait.Receive(t, rested)
		if !c.Dismiss(false) {
			t.Error("one that was needed is dismissed")
		}
		if c.Dismiss(false) {
			t.Error("one that was not needed is kept")
		}
		testwait.Return(t, c.Wait)
	}
	c.Dismiss(true)
	testwait.Return(t, c.Wait)
	c.Give(4) // somebody came late
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 7 {
		t.Errorf("%d is done, want 7", n)
	}
}

// TestSpare: as many are dismissed as have waited all the time, however often the others were needed.
func TestSpare(t *testing.T) {
	const all, needed = 5, 2
	rested, hold := make(chan struct{}, all), make(chan struct{})
	c := crew.New(100, func(struct{}) { testwait.Hold(t, hold) }, func() { rested <- struct{}{} })
	work := func(n int) {
		for range n {
			c.Give(struct{}{})
		}
		for range n {
			hold <- struct{}{}
		}
		for range n {
			testwait.Hold(t, rested)
		}
	}
	work(all)
	c.Dismiss(false)
	for range 3 {
		work(needed)
	}
	if !c.Dismiss(false) {
		t.Error("those that were needed are dismissed")
	}
	if n := crew.Idle(c); n != needed {
		t.Errorf("%d are kept, want %d", n, needed)
	}
	if c.Dismiss(true) {
		t.Error("somebody is kept for ever")
	}
	testwait.Return(t, c.Wait)
}

// TestAll: whatever many give at the same time is done, whenever some are dismissed.
func TestAll(t *testing.T) {
	var done atomic.Int64
	c := crew.New(100, func(n int64) { done.Add(n) }, func() {})
	var givers sync.WaitGroup
	for range 4 {
		givers.Go(func() {
			for i := range int64(500) {
				c.Give(i)
				if i%16 == 0 {
					c.Dismiss(false)
				}
			}
		})
	}
	testwait.Return(t, givers.Wait)
	c.Dismiss(true)
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 4*500*499/2 {
		t.Errorf("%d is done", n)
	}
}
