// Package testwait waits in tests. Each wait ends after [Bound] and then says what it waited for: the source lines that led to it, and
// what every goroutine is doing. Nothing is measured by the bound: a test that reaches it has failed.
//
// The functions end the test that they fail, with the exception of [Hold]. They may be used in a bubble of testing/synctest, where
// the bound is one of the bubble's time.
package testwait

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Bound is how long a wait may take. It is far more than a busy machine needs, and less than what a package's tests may take in all.
const Bound = time.Minute

// Test is what a wait needs of a test: *testing.T, *testing.B and *rapid.T have it.
type Test interface {
	Helper()
	Errorf(format string, args ...any)
	FailNow()
}

// Receive returns the next value of a channel, or the zero value when the channel is closed.
func Receive[T any](t Test, c <-chan T) T {
	t.Helper()
	v, ok := receive(c)
	if !ok {
		fail(t, "nothing was received")
		t.FailNow()
	}
	return v
}

// Hold does what [Receive] does in a goroutine that is not the test's, such as that of a handler: it reports the failure and returns.
func Hold[T any](t Test, c <-chan T) T {
	t.Helper()
	v, ok := receive(c)
	if !ok {
		fail(t, "nothing was received")
	}
	return v
}

func receive[T any](c <-chan T) (v T, ok bool) {
	timer := time.NewTimer(Bound)
	defer timer.Stop()
	select {
	case v = <-c:
		return v, true
	case <-timer.C:
		return v, false
	}
}

// Send sends a value on a channel.
func Send[T any](t Test, c chan<- T, v T) {
	t.Helper()
	timer := time.NewTimer(Bound)
	defer timer.Stop()
	select {
	case c <- v:
	case <-timer.C:
		fail(t, "no receiver took the value")
		t.FailNow()
	}
}

// Return calls a function that waits, such as the method Wait of a sync.WaitGroup, in a goroutine of its own until it returns.
func Return(t Test, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); wait() }()
	if _, ok := receive(done); !ok {
		fail(t, "the call did not return")
		t.FailNow()
	}
}

// True asks again and again until the answer is yes. The words say what the answer is about; without any the source lines have to.
func True(t Test, what string, holds func() bool) {
	t.Helper()
	for range spins { // most of what tests wait for is a few switches away
		if holds() {
			return
		}
		runtime.Gosched()
	}
	timer, tick := time.NewTimer(Bound), time.NewTicker(time.Millisecond)
	defer timer.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timer.C:
			fail(t, strings.TrimSuffix("it did not come about that "+what, " that "))
			t.FailNow()
		}
	}
}

// Context returns a context that ends after [Bound], with an error that says so, and with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	cause := fmt.Errorf("testwait: the test's context ended after %v: %w", Bound, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), Bound, cause)
	t.Cleanup(cancel)
	return ctx
}

// spins is how often True asks before it gives the processor away for a millisecond at a time.
const spins = 1000

// most is how much of the goroutines' stacks is printed.
const most = 64 << 10

// fail reports a wait that reached its bound.
func fail(t Test, what string) {
	t.Helper()
	stacks := make([]byte, most)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.Errorf("%s within %v:%s\n\n%s", what, Bound, trace(), stacks)
}

// trace returns the lines of the tests that led to the wait, the innermost first.
func trace() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.File, "_test.go") {
			fmt.Fprintf(&b, "\n\t%s:%d: %s", filepath.Base(frame.File), frame.Line, sourceLine(frame.File, frame.Line))
		}
		if !more {
			return b.String()
		}
	}
}

// sourceLine returns a line of a file, or nothing when the file is not there, as in a test binary that runs elsewhere.
func sourceLine(name string, number int) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	if number > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[number-1])
}
