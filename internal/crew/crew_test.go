package crew_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/crew"
)

// TestKept: who has ended a piece of work does the next, and whoever is busy holds up nobody.
func TestKept(t *testing.T) {
	rested := make(chan struct{}, 100)
	hold := make(chan struct{})
	var done atomic.Int64
	c := crew.New(100, func(waits bool) {
		if waits {
			<-hold
		}
		done.Add(1)
	}, func() { rested <- struct{}{} })
	c.Give(true) // blocks its goroutine
	for i := range int64(3) {
		c.Give(false)
		<-rested
		if n := done.Load(); n != i+1 {
			t.Errorf("%d pieces are done, want %d", n, i+1)
		}
	}
	close(hold)
	<-rested
	c.Dismiss(true)
	c.Wait()
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
		<-rested
		c.Dismiss(false)
	}
	c.Dismiss(true)
	c.Wait()
	c.Give(4) // somebody came late
	c.Wait()
	if n := done.Load(); n != 7 {
		t.Errorf("%d is done, want 7", n)
	}
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
	givers.Wait()
	c.Dismiss(true)
	c.Wait()
	if n := done.Load(); n != 4*500*499/2 {
		t.Errorf("%d is done", n)
	}
}
