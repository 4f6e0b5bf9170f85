package reconnect

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/internal/callstack"
)

// Close ends all sessions of the pool at once, with [ErrClosed], and cancels pending dials and waits. It returns when the sessions have ended
// and no function of the options or of a handler runs any more, however long that takes. If such a function of any pool calls Close, Close does
// not wait. The client stays open. Close always returns nil, also if it is called again.
func (p *Pool) Close() error {
	p.end(false)
	if !inCallback() {
		<-p.done
	}
	return nil
}

// Shutdown ends the pool gently. No session is picked or dialed any more, and the open sessions drain, as in [Pool.SetAddresses]. Shutdown waits
// until all have ended. If ctx is done first, Shutdown closes the pool and returns the context's error. If a function of the options or of a
// handler calls Shutdown, it does not wait.
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

// end closes all slots, at once or gently.
func (p *Pool) end(gently bool) {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.checkDoneLocked()
	}
	var aborts []func()
	closeSlot := func(sl *slot) {
		if abort := sl.closeLocked(ErrClosed, gently); abort != nil {
			aborts = append(aborts, abort)
		}
	}
	for _, sl := range p.slots {
		closeSlot(sl)
	}
	for sl := range p.leaving {
		closeSlot(sl)
	}
	p.changedLocked()
	p.mu.Unlock()
	for _, abort := range aborts {
		abort()
	}
}

// roots are the functions that call the functions of the options and of handlers.
var roots = [...]string{"(*slot).call", "(*slot).dial", "(*slot).lost", "(*link).wrap", "(*link).runDrain"}

// inCallback reports whether the calling goroutine is in a function of the options or of a handler.
func inCallback() bool { return callstack.Within("github.com/sluice-push/sluice/reconnect", roots[:]) }
