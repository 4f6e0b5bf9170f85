package reconnect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/session"
)

// link is one session of a slot, from before it is dialed until it has ended.
type link struct {
	slot     *slot
	cancel   context.CancelCauseFunc // of what is done to make the session
	opened   chan struct{}           // closed when Open of the handler has returned
	ended    chan struct{}           // closed when Close of the handler has
	pending  atomic.Int64            // leases
	draining atomic.Bool             // written under the pool's mutex

	// Guarded by the pool's mutex; s does not change once the link is ready.
	s      *session.Session // nil until it is known
	ready  bool             // may be picked, or could be once
	over   bool             // the session has ended
	reason error            // why
	since  time.Time        // when it was ready
	drain  func(*session.Session)
	said   bool        // goodbye
	timer  *time.Timer // of draining
}

func newLink(sl *slot, cancel context.CancelCauseFunc) *link {
	return &link{slot: sl, cancel: cancel, opened: make(chan struct{}), ended: make(chan struct{})}
}

// begin makes the session and resumes it. What it leaves behind after an error is for quit.
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

// open makes the session and waits until its handler has opened it.
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
	p.knows(s, l)
	select {
	case <-l.opened:
		return nil
	case <-l.ended:
		return l.reason // written before
	case <-ctx.Done(): // or the client was closed before Open, which is not called then
		return fmt.Errorf("reconnect: open: %w", context.Cause(ctx))
	}
}

// connect makes a session.
func (l *link) connect(ctx context.Context, address string) (*session.Session, error) {
	p := l.slot.p
	if p.o.DialSession != nil {
		s, err := p.o.DialSession(ctx, address, l.wrap)
		if err == nil && s == nil {
			err = errNoConn
		}
		return s, said(err)
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
		return s, said(err)
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
	return s, said(err)
}

// said is an error as the pool says it.
func said(err error) error {
	if err != nil {
		err = fmt.Errorf("reconnect: %w", err)
	}
	return err
}

var errNoConn = errors.New("no connection and no error")

// within bounds ctx by a time, if that is not off.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// wrap returns h with what the pool wants to know. The functions of a handler are called from functions of this one, by whose names
// inCallback knows them.
func (l *link) wrap(h *session.Handler) *session.Handler {
	p := l.slot.p
	p.mu.Lock()
	l.drain = h.Drain
	p.mu.Unlock()
	w := &session.Handler{Pull: h.Pull}
	w.Open = func(s *session.Session) error {
		p.knows(s, l)
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
		defer l.goOn() // also when Close panics
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

// knows notes whose session s is.
func (p *Pool) knows(s *session.Session, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.s == nil {
		l.s = s
		p.links[s] = l
	}
}

// noteEnd is called when the session has ended, before its handler knows.
func (l *link) noteEnd(info *session.CloseInfo) {
	p := l.slot.p
	p.mu.Lock()
	l.over, l.reason = true, fmt.Errorf("reconnect: session ended by %v: %w", info.By, info.Err)
	delete(p.links, l.s)
	if l.timer != nil && l.timer.Stop() {
		p.lessLocked()
	}
	p.changedLocked()
	reason := l.reason
	p.mu.Unlock()
	l.cancel(reason)
}

// goOn is called when the session has ended and its handler knows. Before the session was ready the dialer waits for that.
func (l *link) goOn() {
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

// wait returns when the session, which has ended, is quite gone.
func (l *link) wait() {
	p := l.slot.p
	p.mu.Lock()
	s := l.s
	p.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// drainLocked begins to end a ready session gently.
func (l *link) drainLocked() {
	sl, p := l.slot, l.slot.p
	l.draining.Store(true)
	if sl.sayLocked(Event{State: Draining, Session: l.s, Err: sl.closing}) {
		go sl.tell()
	}
	if t := p.o.DrainTimeout; t > 0 {
		p.live++
		l.timer = time.AfterFunc(t, func() {
			l.s.Abort(sl.closing)
			p.mu.Lock()
			p.lessLocked()
			p.mu.Unlock()
		})
	}
	l.goodbyeLocked()
}

// goodbyeLocked says goodbye if it is time to.
func (l *link) goodbyeLocked() {
	if l.said || l.over || !l.draining.Load() || l.pending.Load() > 0 {
		return
	}
	l.said = true
	l.slot.p.live++
	go l.goodbye(l.drain, l.slot.closing)
}

// goodbye has the handler say goodbye, or ends the session itself.
func (l *link) goodbye(drain func(*session.Session), cause error) {
	p := l.slot.p
	returned := false
	defer func() {
		if !returned {
			l.s.Abort(p.panicked("drain", recover()))
		}
		p.mu.Lock()
		p.lessLocked()
		p.mu.Unlock()
	}()
	if drain == nil {
		l.s.End(nil, cause)
	} else {
		drain(l.s)
	}
	returned = true
}

// SetHandler is [session.Session.SetHandler] for sessions of the pool, which otherwise would not notice the end of the session:
// it may be called from Open, Message and Tick only. Nil is a handler that handles nothing.
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
