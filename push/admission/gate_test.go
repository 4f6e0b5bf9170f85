package admission_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sluice-push/sluice/push/admission"
)

// So many pass at once, so many wait, and the rest is refused; when one leaves, one that waits follows. Afterwards there is as much room as before.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := admission.NewLimits(nil)
		g := admission.NewGate(limits, admission.TokenChecks, atOnce, waiting)
		const rounds = 2
		for range rounds {
			crowd(t, g)
		}
		if n := count(limits, admission.TokenChecks); n != rounds*(others+1) {
			t.Errorf("counted %d times", n)
		}
	})
}

const atOnce, waiting, others = 3, 5, 7

// crowd sends more goroutines through a gate than it takes.
func crowd(t *testing.T, g *admission.Gate) {
	t.Helper()
	var inside, refused atomic.Int64
	leave := make(chan struct{})
	var running sync.WaitGroup
	for range atOnce + waiting + others {
		running.Go(func() {
			if err := g.Enter(t.Context()); err != nil {
				if !errors.Is(err, admission.ErrBusy) {
					t.Error(err)
				}
				refused.Add(1)
				return
			}
			if n := inside.Add(1); n > atOnce {
				t.Errorf("%d are inside", n)
			}
			<-leave
			inside.Add(-1)
			g.Leave()
		})
	}
	synctest.Wait()
	if inside.Load() != atOnce || refused.Load() != others {
		t.Errorf("%d are inside, %d refused", inside.Load(), refused.Load())
	}
	leave <- struct{}{}
	synctest.Wait()
	if inside.Load() != atOnce {
		t.Errorf("%d are inside after one has left", inside.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { // there is room to wait for one
		if err := g.Enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was cancelled: %v", err)
		}
	})
	synctest.Wait()
	if err := g.Enter(t.Context()); !errors.Is(err, admission.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	close(leave)
	running.Wait()
}

// A gate that runs dry lets all pass at once and counts those that it would have refused.
func TestGateDry(t *testing.T) {
	limits := admission.NewLimits(nil, admission.TokenChecks)
	g := admission.NewGate(limits, admission.TokenChecks, 2, 3)
	for range 2 {
		for range 9 {
			if err := g.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 9 {
			g.Leave()
		}
	}
	if n := count(limits, admission.TokenChecks); n != 8 {
		t.Errorf("counted %d times", n)
	}
}
