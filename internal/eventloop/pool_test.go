package eventloop_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
)

// A goroutine that has done a piece of work does the next one, and a busy one holds up no work.
func TestPoolKeeps(t *testing.T) {
	rested := make(chan struct{}, 100)
	hold := make(chan struct{})
	var done atomic.Int64
	c := eventloop.NewPool(100, func(waits bool) {
		if waits {
			testwait.Hold(t, hold)
		}
		done.Add(1)
	}, func() { rested <- struct{}{} })
	c.Run(true) // blocks its goroutine
	for i := range int64(3) {
		c.Run(false)
		testwait.Receive(t, rested)
		if n := done.Load(); n != i+1 {
			t.Errorf("%d pieces are done, want %d", n, i+1)
		}
	}
	close(hold)
	testwait.Receive(t, rested)
	c.TrimIdle(true)
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 4 {
		t.Errorf("%d pieces are done, want 4", n)
	}
}

// Spare goroutines end when they are trimmed, and there are others when there is work again.
func TestTrimIdle(t *testing.T) {
	rested := make(chan struct{}, 1)
	var done atomic.Int64
	c := eventloop.NewPool(100, func(n int64) { done.Add(n) }, func() { rested <- struct{}{} })
	for range 3 {
		c.Run(1)
		testwait.Receive(t, rested)
		if !c.TrimIdle(false) {
			t.Error("one that was needed is dismissed")
		}
		if c.TrimIdle(false) {
			t.Error("one that was not needed is kept")
		}
		testwait.Return(t, c.Wait)
	}
	c.TrimIdle(true)
	testwait.Return(t, c.Wait)
	c.Run(4) // work that comes late
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 7 {
		t.Errorf("%d is done, want 7", n)
	}
}

// TestSpare checks that as many goroutines are trimmed as have waited all the time, however often the others were needed.
func TestSpare(t *testing.T) {
	const all, needed = 5, 2
	rested, hold := make(chan struct{}, all), make(chan struct{})
	c := eventloop.NewPool(100, func(struct{}) { testwait.Hold(t, hold) }, func() { rested <- struct{}{} })
	work := func(n int) {
		for range n {
			c.Run(struct{}{})
		}
		for range n {
			hold <- struct{}{}
		}
		for range n {
			testwait.Hold(t, rested)
		}
	}
	work(all)
	c.TrimIdle(false)
	for range 3 {
		work(needed)
	}
	if !c.TrimIdle(false) {
		t.Error("goroutines that were needed have been ended")
	}
	if n := eventloop.Idle(c); n != needed {
		t.Errorf("%d are kept, want %d", n, needed)
	}
	if c.TrimIdle(true) {
		t.Error("a goroutine is kept for ever")
	}
	testwait.Return(t, c.Wait)
}

// TestAll checks that all work that many goroutines submit concurrently is done, whenever spare goroutines are trimmed.
func TestAll(t *testing.T) {
	var done atomic.Int64
	c := eventloop.NewPool(100, func(n int64) { done.Add(n) }, func() {})
	var givers sync.WaitGroup
	for range 4 {
		givers.Go(func() {
			for i := range int64(500) {
				c.Run(i)
				if i%16 == 0 {
					c.TrimIdle(false)
				}
			}
		})
	}
	testwait.Return(t, givers.Wait)
	c.TrimIdle(true)
	testwait.Return(t, c.Wait)
	if n := done.Load(); n != 4*500*499/2 {
		t.Errorf("%d is done", n)
	}
}
