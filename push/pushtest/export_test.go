package pushtest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Complaints runs one check of the suite with a short time limit, and returns its errors. It panics if there is no such check.
func Complaints(ctx context.Context, name string, patience time.Duration, h Harness) []string {
	for _, c := range checks {
		if c.name == name {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			w := &witness{ctx: ctx}
			done := make(chan struct{})
			go func() {
				defer close(done)
				runCheck(w, c, h)
			}()
			<-done
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.complaints
		}
	}
	panic("no such check: " + name)
}

// CheckNames returns the names of all checks.
func CheckNames() []string {
	var out []string
	for _, c := range checks {
		out = append(out, c.name)
	}
	return out
}

// witness is a tester that records the errors.
type witness struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func (w *witness) Helper() {}

func (w *witness) Context() context.Context { return w.ctx }

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}
