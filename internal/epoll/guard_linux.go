package epoll

import "sync/atomic"

// Guard tells a goroutine of what a list has to report while who waits for that is away: one goroutine posts it and has it leave, another
// one waits.
type Guard struct {
	relay  *relay
	wait   func(uintptr) bool // report
	posted atomic.Bool

	// Owned by who waits.
	events *Buffer
	err    error
}

// NewGuard makes a guard of l that is not posted. It takes a descriptor, and fails where there is none, and takes as long as [List.Prepare].
func NewGuard(l *List) (*Guard, error) {
	r, err := newRelay(l.fd)
	if err != nil {
		return nil, err
	}
	g := &Guard{relay: r, events: NewBuffer(1)}
	g.wait = g.report
	return g, nil
}

// Post has Wait return once when the list has something to report, which may be at once.
func (g *Guard) Post() {
	if !g.posted.Load() && !g.posted.Swap(true) {
		g.relay.tell(In | OneShot)
	}
}

// Leave takes that back. A report that is under way still arrives. No guard, nil, has left.
func (g *Guard) Leave() {
	if g != nil && g.posted.Load() && g.posted.Swap(false) {
		g.relay.tell(0)
	}
}

// Posted reports whether neither a report nor Leave has followed Post.
func (g *Guard) Posted() bool { return g.posted.Load() }

// Wait waits for a report, after which the guard has left. It parks the goroutine. After Close it returns an error.
func (g *Guard) Wait() error {
	if err := g.relay.rc.Read(g.wait); err != nil {
		return err
	}
	g.posted.Store(false)
	return g.err
}

func (g *Guard) report(fd uintptr) bool {
	g.err = g.events.poll(int(fd)) //nolint:gosec // descriptors are small
	return g.err != nil || g.events.n > 0
}

// Close gives the descriptor back, and has Wait return. The list is not closed. Where there is no guard, nil, there is nothing to close.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	return g.relay.file.Close()
}
