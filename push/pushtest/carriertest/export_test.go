package carriertest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Complaints runs one check of the suite in fake time, and returns its errors. It panics if there is no such check.
func Complaints(t *testing.T, name string, h Harness) (complaints []string) {
	t.Helper()
	for _, c := range checks {
		if c.name != name {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			w := &recorder{ctx: t.Context()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				runCheck(w, c, h, inMemory{})
			}()
			<-done
			complaints = w.complaints
		})
		return complaints
	}
	panic("no such check: " + name)
}

// CheckNames returns the names of the checks that a harness has to pass; all if it is nil.
func CheckNames(h *Harness) (all []string) {
	for _, c := range checks {
		if h == nil || c.needs == nil || c.needs(h) {
			all = append(all, c.name)
		}
	}
	return all
}

// recorder is a tester that records the errors.
type recorder struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
