package logsample_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/internal/testwait"
)

func TestDue(t *testing.T) {
	var w logsample.Warning
	at := time.Unix(1, 0) // less than five seconds behind zero
	for i, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {5*time.Second - 1, false}, {5 * time.Second, true}, {9 * time.Second, false}, {10 * time.Second, true}} {
		if got := w.Due(at.Add(step.after)); got != step.want {
			t.Errorf("%d: due after %v: %t", i, step.after, got)
		}
	}
}

// TestOnce checks that one of many goroutines with the same message logs it.
func TestOnce(t *testing.T) {
	var w logsample.Warning
	var said atomic.Int64
	var all sync.WaitGroup
	now := time.Now()
	for range 16 {
		all.Go(func() {
			if w.Due(now) {
				said.Add(1)
			}
		})
	}
	if testwait.Return(t, all.Wait); said.Load() != 1 {
		t.Errorf("it was said %d times", said.Load())
	}
}
