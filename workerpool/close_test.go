package workerpool_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/workerpool"
)

// log is a logger that records its lines.
type log struct {
	logger *slog.Logger
	mu     sync.Mutex
	text   bytes.Buffer
}

func newLog() *log {
	l := &log{}
	l.logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns the number of lines that contain the text.
func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// start calls f on a goroutine. The function ended waits until all goroutines of the bubble are blocked, and reports whether f has returned.
func start(f func()) (ended func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// Close drops tasks that have not begun, rejects waiting submitters, and waits for running tasks.
func TestClose(t *testing.T) {
	forPolicies(t, func(t *testing.T, k kind, p workerpool.Policy) {
		e := k.make(one(p))
		release := hold(t, e, 1)
		for range 2 {
			must(t, e.Submit(1, func() { t.Error("it was dropped") }))
		}
		refused := uint64(0)
		waits := func() bool { return true }
		if p == workerpool.Wait {
			waits = start(func() { want(t, e.Submit(1, func() { t.Error("it was refused") }), workerpool.ErrClosed) })
			if waits() {
				t.Fatal("it does not wait")
			}
			refused = 1
		}
		first := start(func() { must(t, e.Close()) })
		second := start(func() { must(t, e.Close()) })
		if first() || second() || !waits() {
			t.Fatal("Close does not wait, or the other waits on")
		}
		wantStats(t, e, workerpool.Stats{Submitted: 3, Dropped: 2, Refused: refused, Running: 1, Workers: 1})
		want(t, e.Submit(1, func() {}), workerpool.ErrClosed)
		want(t, e.TrySubmit(1, func() {}), workerpool.ErrClosed)
		n, err := e.SubmitBatch(1, []func(){func() {}, func() {}})
		want(t, err, workerpool.ErrClosed)
		release()
		if n != 0 || !first() || !second() {
			t.Fatal("Close waits on")
		}
		must(t, e.Close())
		must(t, e.Shutdown(background))
		wantStats(t, e, workerpool.Stats{Submitted: 3, Dropped: 2, Run: 1, Refused: refused + 4})
	})
}

// Close also drops the tasks in the local queue of a worker.
func TestCloseEmptiesHands(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		e := k.make(&workerpool.Options{Workers: 1, Queue: 1000})
		release := hold(t, e, 1)
		block, begun := make(chan struct{}), make(chan struct{})
		must(t, e.Submit(1, func() {
			close(begun)
			<-block
		}))
		for range 500 {
			must(t, e.Submit(1, func() { t.Error("it was dropped") }))
		}
		release()
		<-begun // the worker has taken a batch, of which this task is the first
		closed := start(func() { must(t, e.Close()) })
		if closed() {
			t.Fatal("Close does not wait")
		}
		wantStats(t, e, workerpool.Stats{Submitted: 502, Run: 1, Dropped: 500, Running: 1, Workers: 1})
		close(block)
		if !closed() {
			t.Fatal("Close waits on")
		}
	})
}

// An executor that was never used ends at once.
func TestCloseUnused(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		must(t, k.make(nil).Close())
		must(t, k.make(&workerpool.Options{Workers: 3}).Shutdown(background))
	})
}

// Shutdown runs the accepted tasks, unless its context ends first.
func TestShutdown(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		for _, patient := range []bool{true, false} {
			o := one(workerpool.Wait)
			o.Queue = 200
			e := k.make(o)
			release := hold(t, e, 1)
			var ran atomic.Int64
			for range 200 {
				must(t, e.Submit(1, func() { ran.Add(1) }))
			}
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			var err error
			ended := start(func() { err = e.Shutdown(ctx) })
			if ended() {
				t.Fatal("Shutdown does not wait")
			}
			want(t, e.Submit(1, func() {}), workerpool.ErrClosed)
			if patient {
				release()
				if !ended() {
					t.Fatal("Shutdown waits on")
				}
				must(t, err)
				wantStats(t, e, workerpool.Stats{Submitted: 201, Run: 201, Refused: 1})
				continue
			}
			<-ctx.Done()
			if !ended() {
				t.Fatal("Shutdown waits on")
			}
			want(t, err, context.DeadlineExceeded)
			wantStats(t, e, workerpool.Stats{Submitted: 201, Dropped: 200, Refused: 1, Running: 1, Workers: 1})
			release()
			must(t, e.Close())
			must(t, e.Shutdown(ctx)) // the executor is gone, so the context does not count
			wantStats(t, e, workerpool.Stats{Submitted: 201, Dropped: 200, Refused: 1, Run: 1})
		}
	})
}

// A task may close its executor, or another one, and does not wait for itself, on a worker or on the goroutine of a submitter.
func TestCloseFromTask(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		for name, end := range map[string]func(executor){
			"Close":    func(e executor) { _ = e.Close() },
			"Shutdown": func(e executor) { _ = e.Shutdown(background) },
		} {
			e, other := k.make(one(workerpool.Wait)), k.make(nil)
			release := hold(t, e, 1)
			ended := make(chan struct{})
			must(t, e.Submit(1, func() {
				deep(100, func() {
					end(other)
					end(e)
				})
				close(ended)
			}))
			var ran atomic.Bool
			must(t, e.Submit(1, func() { ran.Store(true) }))
			release()
			<-ended
			must(t, e.Close())
			synctest.Wait()
			if name == "Shutdown" && ran.Load() && e.Stats().Run != 3 || name == "Close" && ran.Load() {
				t.Errorf("%s: ran %v, %+v", name, ran.Load(), e.Stats())
			}
			if k.ordered {
				continue
			}
			e = k.make(one(workerpool.CallerRuns))
			release = hold(t, e, 1)
			for range 2 {
				must(t, e.Submit(1, func() {}))
			}
			must(t, e.Submit(1, func() { end(e) }))
			release()
			must(t, e.Close())
		}
	})
}

// deep calls f at the end of a long call stack.
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}

// Close waits for a submitter that runs a task.
func TestCloseWaitsForCallers(t *testing.T) {
	forAll(t, func(t *testing.T, k kind) {
		if k.ordered {
			return
		}
		e := k.make(one(workerpool.CallerRuns))
		release := hold(t, e, 1)
		for range 2 {
			must(t, e.Submit(1, func() {}))
		}
		held := make(chan struct{})
		caller := start(func() { must(t, e.Submit(1, func() { <-held })) })
		if caller() {
			t.Fatal("it did not run in the caller")
		}
		release()
		closed := start(func() { must(t, e.Shutdown(background)) })
		if closed() {
			t.Fatal("Shutdown does not wait for the caller")
		}
		wantStats(t, e, workerpool.Stats{Submitted: 4, Run: 3, Running: 1})
		close(held)
		if !closed() || !caller() {
			t.Fatal("Shutdown waits on")
		}
	})
}
