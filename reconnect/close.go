package reconnect

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/internal/stack"
)

// Close ends all sessions of the pool at once, with [ErrClosed], and whatever is being dialed or waited for. It returns when they have
// ended and no function of the options or of a handler is running any more, however long that takes; called from one of those, of
// whichever pool, it does not wait. The client is left alone. It always returns nil, also when called again.
func (p *Pool) Close() error {
	p.end(false)
	if !inCallback() {
		<-p.done
	}
	return nil
}

// Shutdown ends the pool gently: nothing is picked or dialed any more, and sessions are ended as those that leave in
// [Pool.SetAddresses]. It waits until all have ended. When ctx is done first it closes the pool and returns the context's error.
// Called from a function of the options or of a handler it does not wait.
func (p *Pool) Shutdown(ctx context.Context) error {
	p.end(true)
	if inCallback() {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	_ = p.Close()
	return fmt.Errorf("reconnect: shutdown: %w", ctx.Err())
}

// end ends all slots.
func (p *Pool) end(gently bool) {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.overLocked()
	}
	var aborts []func()
	shut := func(sl *slot) {
		if abort := sl.shutLocked(ErrClosed, gently); abort != nil {
			aborts = append(aborts, abort)
		}
	}
	for _, sl := range p.slots {
		shut(sl)
	}
	for sl := range p.leaving {
		shut(sl)
	}
	p.changedLocked()
	p.mu.Unlock()
	for _, abort := range aborts {
		abort()
	}
}

// roots are the functions from which those of the options and of handlers are called.
var roots = [...]string{"(*slot).call", "(*slot).dial", "(*slot).lost", "(*link).wrap", "(*link).goodbye"}

// inCallback reports whether the calling goroutine is in one of them.
func inCallback() bool { return stack.Within("github.com/sluice-push/sluice/reconnect", roots[:]) }
