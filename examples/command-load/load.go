package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/examples/internal/command"
	"github.com/sluice-push/sluice/examples/internal/latency"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// load is a number of clients of one server, each with a session of its own. The functions of a session's handler do all the work:
// an answer makes them send the next request. There is no goroutine for a client.
type load struct {
	settings
	start   time.Time
	client  *session.Client
	pool    *reconnect.Pool // nil without -reconnect
	callers []*caller

	latency    latency.Histogram
	answered   atomic.Uint64
	reconnects atomic.Uint64 // sessions that took the place of another
	again      atomic.Uint64 // requests that were sent again
	stopping   atomic.Bool   // nothing new is sent

	waiting atomic.Int64  // clients that are not done
	done    chan struct{} // closed when none is waiting

	once   sync.Once
	failed chan struct{} // closed when err is set
	err    error
}

// caller is one client. It is used by the functions of its session, which never run at the same time; when that has ended, by
// those of the next one.
type caller struct {
	number  int
	window  window
	opened  bool // it had a session
	greeted bool // the session has the answer to its connect
	done    bool
	frame   []byte // where requests are made
	payload []byte // shared by all
}

// newLoad makes a load that does nothing yet.
func newLoad(s settings) (*load, error) {
	l := &load{settings: s, start: time.Now(), done: make(chan struct{}), failed: make(chan struct{})}
	payload := make([]byte, s.size-command.Header)
	for i := range payload {
		payload[i] = byte(i)
	}
	for i := range s.clients {
		l.callers = append(l.callers, &caller{number: i, window: newWindow(s.messages, s.inFlight), payload: payload})
	}
	l.waiting.Store(int64(s.clients))
	h := session.Typed[*caller]{Open: l.open, Message: l.message, Close: l.closed}
	l.client = session.NewClient(command.Codec, h.Handler(), &session.Options{
		IdleTimeout: s.timeout,
		// All that may be in flight has room, so that a handler never waits for its own peer.
		QueueBytes:  64<<10 + s.inFlight*s.size,
		QueueFrames: 16 + s.inFlight,
	})
	if !s.reconnect {
		return l, nil
	}
	pool, err := reconnect.New(l.client, &reconnect.Options{
		Addresses: []string{s.connect}, Sessions: s.clients, Handler: h.Handler(),
		Attach: func(slot int, _ string) *session.Attach { return &session.Attach{Value: l.callers[slot]} },
		State:  l.state,
		Base:   50 * time.Millisecond, Cap: time.Second, MaxAttempts: s.attempts, DialTimeout: s.timeout,
	})
	l.pool = pool
	return l, err
}

// dial connects all clients, or has them connected. A context that is done leaves the rest of them with nothing to do.
func (l *load) dial(ctx context.Context) {
	if l.pool != nil {
		l.pool.Start()
		return
	}
	for _, c := range l.callers {
		_, err := l.client.DialWith(ctx, "tcp", l.connect, &session.Attach{Value: c})
		switch {
		case ctx.Err() != nil && err != nil:
			l.finish() // with nothing sent
		case err != nil:
			l.fail(c, err)
			return
		}
	}
}

// open begins a session: the first, or another one.
func (l *load) open(s *session.Session) (*caller, error) {
	c := s.Value().(*caller)
	if c.opened {
		l.reconnects.Add(1)
	}
	c.opened, c.greeted = true, false
	return c, c.send(s, command.Request{Command: command.Connect, ID: uint64(c.number), Body: fmt.Appendf(nil, "load-%d", c.number)})
}

// message handles an answer.
func (l *load) message(s *session.Session, c *caller, msg []byte) {
	a, err := command.ParseAnswer(msg)
	if err == nil && a.Result != command.OK {
		err = fmt.Errorf("request %d has the result %d", a.ID, a.Result)
	}
	if err == nil {
		err = l.take(s, c, a)
	}
	// When the session has ended under what was being sent, Close knows why.
	if err != nil && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrTimeout) {
		l.fail(c, err)
		s.Abort(err)
	}
}

// take takes an answer that is well-formed, and sends what may be sent now.
func (l *load) take(s *session.Session, c *caller, a command.Answer) error {
	switch {
	case a.Command == command.Connected && (c.greeted || a.ID != uint64(c.number)):
		return fmt.Errorf("an answer to connect %d, which was not sent, or is answered", a.ID)
	case a.Command == command.Connected:
		c.greeted = true
		for id := c.window.oldest; id < c.window.next; id++ {
			l.again.Add(1)
			if err := c.submit(s, id); err != nil {
				return err
			}
		}
	case !c.greeted:
		return fmt.Errorf("an answer to request %d, before that to connect", a.ID)
	default:
		sentAt, err := c.window.answer(a.ID)
		if err != nil {
			return err
		}
		l.latency.Add(time.Duration(l.now() - sentAt))
		l.answered.Add(1)
	}
	return l.more(s, c)
}

// more sends requests as long as more may be in flight. If there are none any more, and all are answered, the client is done.
func (l *load) more(s *session.Session, c *caller) error {
	for !l.stopping.Load() {
		id, ok := c.window.take(l.now())
		if !ok {
			break
		}
		if err := c.submit(s, id); err != nil {
			return err
		}
	}
	if c.window.pending() > 0 {
		return nil
	}
	s.SetLimits(session.Limits{IdleTimeout: -1}) // it waits for the others
	if !c.done {
		c.done = true
		l.finish()
	}
	return nil
}

// submit sends a request.
func (c *caller) submit(s *session.Session, id uint64) error {
	return c.send(s, command.Request{Command: command.Submit, ID: id, Body: c.payload})
}

func (c *caller) send(s *session.Session, r command.Request) error {
	c.frame = command.AppendRequest(c.frame[:0], r)
	return s.Write(c.frame)
}

// closed is called when a session has ended. Without -reconnect it must not before its client is done.
func (l *load) closed(_ *session.Session, c *caller, info *session.CloseInfo) {
	if l.pool == nil && !c.done {
		l.fail(c, fmt.Errorf("the session has ended with %d requests not answered: %w", c.window.pending(), info.Err))
	}
}

// state is told what becomes of the sessions of the pool.
func (l *load) state(e reconnect.Event) {
	if e.State == reconnect.Failed {
		l.fail(l.callers[e.Slot], e.Err)
	}
}

// finish takes note of a client that is done.
func (l *load) finish() {
	if l.waiting.Add(-1) == 0 {
		close(l.done)
	}
}

// fail takes note of what went wrong. The first counts.
func (l *load) fail(c *caller, err error) {
	l.once.Do(func() {
		l.err = fmt.Errorf("client %d: %w", c.number, err)
		close(l.failed)
	})
}

// wait waits until all clients are done, or one has failed. When ctx is done nothing more is sent, and what is in flight has a
// time-out to be answered.
func (l *load) wait(ctx context.Context) {
	select {
	case <-l.done:
		return
	case <-l.failed:
		return
	case <-ctx.Done():
		l.stopping.Store(true)
	}
	late := time.NewTimer(l.timeout)
	defer late.Stop()
	select {
	case <-l.done:
	case <-l.failed:
	case <-late.C:
	}
}

// close ends all sessions, gently, and returns what was wrong. When it has returned nothing of the load runs any more.
func (l *load) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	select {
	case <-l.failed:
		cancel() // at once
	default:
	}
	if l.pool != nil {
		_ = l.pool.Shutdown(ctx) // an error says that peers were cut off, which is nothing to them now
	}
	_ = l.client.Shutdown(ctx)
	select {
	case <-l.failed:
		return l.err
	default:
	}
	for _, c := range l.callers {
		if n := c.window.pending(); n > 0 {
			return fmt.Errorf("client %d: %d requests were not answered", c.number, n)
		}
		if !c.window.complete() && !l.stopping.Load() {
			return fmt.Errorf("client %d: %d of %d requests were made", c.number, c.window.answered(), c.window.last)
		}
	}
	return nil
}

// now is the time since the start, in nanoseconds.
func (l *load) now() int64 { return int64(time.Since(l.start)) }
