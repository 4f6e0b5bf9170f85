package admission

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrBusy says that so much waits at a [Gate] already that it takes no more. The same may succeed later.
var ErrBusy = errors.New("admission: too much at once, try again later")

// Gate bounds how many goroutines do something at the same time. Others wait, up to a number. Its methods may be called concurrently.
type Gate struct {
	limits *Limits
	name   Name
	slots  chan struct{} // has an element for each goroutine inside; unused if the limit runs dry
	most   int64         // goroutines inside and waiting
	inside atomic.Int64  // both
}

// NewGate returns a gate for a limit: through which atOnce goroutines pass, at least one, while up to waiting others wait.
func NewGate(l *Limits, n Name, atOnce, waiting int) *Gate {
	atOnce = max(atOnce, 1)
	return &Gate{limits: l, name: n, slots: make(chan struct{}, atOnce), most: int64(atOnce) + int64(max(waiting, 0))}
}

// Enter waits until the calling goroutine may go on, which then calls Leave. Errors are [ErrBusy] if too many wait, and that of ctx; then Leave must
// not be called. Nobody waits, and there is no error, if the limit runs dry.
func (g *Gate) Enter(ctx context.Context) error {
	if g.inside.Add(1) > g.most && g.limits.Exceeded(g.name) {
		g.inside.Add(-1)
		return ErrBusy
	}
	if !g.limits.Enforced(g.name) {
		return nil
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		g.inside.Add(-1)
		return ctx.Err()
	}
}

// Leave lets the next goroutine in.
func (g *Gate) Leave() {
	if g.limits.Enforced(g.name) {
		<-g.slots
	}
	g.inside.Add(-1)
}
