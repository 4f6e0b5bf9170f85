package reconnect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/session"
)

// link is one attempt of a slot and the session that results from it, from before the dial until the session has ended.
type link struct {
	slot     *slot
	cancel   context.CancelCauseFunc // cancels dialing, opening and resuming
	opened   chan struct{}           // closed when Open of the handler has returned
	ended    chan struct{}           // closed when Close of the handler has returned
	pending  atomic.Int64            // leases
	draining atomic.Bool             // written under the pool's mutex

	// Guarded by the pool's mutex; s does not change once the link is ready.
	s        *session.Session // nil until setSession
	ready    bool             // the session has become open, and may have ended since
	over     bool             // the session has ended
	reason   error            // why the session has ended
	since    time.Time        // when ready was set
	drain    func(*session.Session)
	drainRun bool        // runDrain has been started
	timer    *time.Timer // aborts a draining session after DrainTimeout
}

func newLink(sl *slot, cancel context.CancelCauseFunc) *link {
	return &link{slot: sl, cancel: cancel, opened: make(chan struct{}), ended: make(chan struct{})}
}

// begin makes the session and resumes it. After an error, the caller calls quit, which ends a session that was made nevertheless.
func (l *link) begin(ctx context.Context) error {
	p := l.slot.p
	if err := l.open(ctx); err != nil {
		return err
	}
	if p.o.Resume == nil {
		return nil
	}
	ctx, cancel := within(ctx, p.o.ResumeTimeout)
	defer cancel()
	if err := p.o.Resume(ctx, l.s); err != nil {
		return fmt.Errorf("reconnect: resume: %w", err)
	}
	return nil
}

// open makes the session and waits until Open of its handler has returned.
func (l *link) open(ctx context.Context) error {
	p := l.slot.p
	ctx, cancel := within(ctx, p.o.DialTimeout)
	defer cancel()
	p.mu.Lock()
	address := l.slot.address
	p.mu.Unlock()
	s, err := l.connect(ctx, address)
	if err != nil {
		return err
	}
	p.setSession(s, l)
	select {
	case <-l.opened:
		return nil
	case <-l.ended:
		return l.reason // noteEnd has written it before ended was closed
	case <-ctx.Done(): // or the client was closed before Open, which is not called then
		return fmt.Errorf("reconnect: open: %w", context.Cause(ctx))
	}
}

// connect dials and makes a session, by DialSession, by Dial, or by the client.
func (l *link) connect(ctx context.Context, address string) (*session.Session, error) {
	p := l.slot.p
	if p.o.DialSession != nil {
		s, err := p.o.DialSession(ctx, address, l.wrap)
		if err == nil && s == nil {
			err = errNoConn
		}
		return s, wrapError(err)
	}
	at := session.Attach{}
	if p.o.Attach != nil {
		if own := p.o.Attach(l.slot.id, address); own != nil {
			at = *own
		}
	}
	if at.Handler == nil {
		at.Handler = p.o.Handler
	}
	at.Handler = l.wrap(at.Handler)
	if p.o.Dial == nil {
		s, err := p.client.DialWith(ctx, p.o.Network, address, &at)
		return s, wrapError(err)
	}
	conn, err := p.o.Dial(ctx, p.o.Network, address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reconnect: dial: %w", err)
	case conn == nil:
		return nil, fmt.Errorf("reconnect: dial: %w", errNoConn)
	case ctx.Err() != nil:
		_ = conn.Close()
		return nil, fmt.Errorf("reconnect: dial: %w", context.Cause(ctx))
	}
	s, err := p.client.ServeConn(conn, &at)
	return s, wrapError(err)
}

// wrapError puts the name of the package before an error.
func wrapError(err error) error {
	if err != nil {
		err = fmt.Errorf("reconnect: %w", err)
	}
	return err
}

var errNoConn = errors.New("no connection and no error")

// within returns ctx with the timeout d, if d is not zero.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// wrap returns a handler that calls h and also tells the pool of the session's start and end. The functions of h are called from functions whose
// names contain wrap, by which inCallback recognizes them.
func (l *link) wrap(h *session.Handler) *session.Handler {
	p := l.slot.p
	p.mu.Lock()
	l.drain = h.Drain
	p.mu.Unlock()
	w := &session.Handler{Pull: h.Pull}
	w.Open = func(s *session.Session) error {
		p.setSession(s, l)
		if h.Open != nil {
			if err := h.Open(s); err != nil {
				return err
			}
		}
		close(l.opened)
		return nil
	}
	w.Close = func(s *session.Session, info *session.CloseInfo) {
		l.noteEnd(info)
		defer l.afterClose() // also when Close panics
		if h.Close != nil {
			h.Close(s, info)
		}
	}
	if f := h.Message; f != nil {
		w.Message = func(s *session.Session, msg []byte) { f(s, msg) }
	}
	if f := h.Tick; f != nil {
		w.Tick = func(s *session.Session) { f(s) }
	}
	if f := h.Writable; f != nil {
		w.Writable = func(s *session.Session) { f(s) }
	}
	if f := h.Drain; f != nil {
		w.Drain = func(s *session.Session) { f(s) }
	}
	return w
}

// setSession records that s is the session of l.
func (p *Pool) setSession(s *session.Session, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.s == nil {
		l.s = s
		p.links[s] = l
	}
}

// noteEnd records the end of the session. It is called before Close of the user's handler.
func (l *link) noteEnd(info *session.CloseInfo) {
	p := l.slot.p
	p.mu.Lock()
	l.over, l.reason = true, fmt.Errorf("reconnect: session ended by %v: %w", info.By, info.Err)
	delete(p.links, l.s)
	if l.timer != nil && l.timer.Stop() {
		p.releaseLocked()
	}
	p.changedLocked()
	reason := l.reason
	p.mu.Unlock()
	l.cancel(reason)
}

// afterClose is called after Close of the user's handler. If the session was ready, afterClose moves the slot on; before that, the dialing
// goroutine waits for ended and does it.
func (l *link) afterClose() {
	close(l.ended)
	p := l.slot.p
	p.mu.Lock()
	ready, reason := l.ready, l.reason
	p.mu.Unlock()
	if ready {
		l.slot.lost(l, reason)
	}
}

// quit ends a session that did not become ready, and waits for its end.
func (l *link) quit(err error) {
	p := l.slot.p
	p.mu.Lock()
	s := l.s
	p.mu.Unlock()
	if s == nil {
		return
	}
	s.Abort(err)
	s.Close()
	p.mu.Lock()
	delete(p.links, s) // Close of the handler is not called if Open was not
	p.mu.Unlock()
}

// wait waits until the session, which has ended, has released everything.
func (l *link) wait() {
	p := l.slot.p
	p.mu.Lock()
	s := l.s
	p.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// drainLocked begins to drain a ready session.
func (l *link) drainLocked() {
	sl, p := l.slot, l.slot.p
	l.draining.Store(true)
	if sl.postLocked(Event{State: Draining, Session: l.s, Err: sl.closing}) {
		go sl.notify()
	}
	if t := p.o.DrainTimeout; t > 0 {
		p.live++
		l.timer = time.AfterFunc(t, func() {
			l.s.Abort(sl.closing)
			p.mu.Lock()
			p.releaseLocked()
			p.mu.Unlock()
		})
	}
	l.runDrainLocked()
}

// runDrainLocked starts runDrain if the session is draining and has no leases left.
func (l *link) runDrainLocked() {
	if l.drainRun || l.over || !l.draining.Load() || l.pending.Load() > 0 {
		return
	}
	l.drainRun = true
	l.slot.p.live++
	go l.runDrain(l.drain, l.slot.closing)
}

// runDrain calls Drain of the handler, which should end the session. Without Drain it ends the session itself.
func (l *link) runDrain(drain func(*session.Session), cause error) {
	p := l.slot.p
	returned := false
	defer func() {
		if !returned {
			l.s.Abort(p.panicked("drain", recover()))
		}
		p.mu.Lock()
		p.releaseLocked()
		p.mu.Unlock()
	}()
	if drain == nil {
		l.s.End(nil, cause)
	} else {
		drain(l.s)
	}
	returned = true
}

// SetHandler replaces the handler of a session of the pool, as [session.Session.SetHandler] does. If a program called that method itself, the
// pool would not notice the end of the session. SetHandler may be called from Open, Message and Tick only. Nil is a handler without functions.
func (p *Pool) SetHandler(s *session.Session, h *session.Handler) {
	p.mu.Lock()
	l := p.links[s]
	p.mu.Unlock()
	if l == nil {
		s.SetHandler(h)
		return
	}
	if h == nil {
		h = new(session.Handler)
	}
	s.SetHandler(l.wrap(h))
}
