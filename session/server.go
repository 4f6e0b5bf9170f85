package session

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/datagram"
	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/goroutineconn"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// Server runs the sessions of connections that it accepts in Serve or gets from ServeConn. All methods may be called concurrently.
type Server struct {
	// Set when made.
	o         settings
	codec     Codec
	handler   *Handler
	pools     *buffer.Pools
	observer  Observer
	closedErr error // the error of calls after Close
	single    bool  // the server is closed when its session ends
	start     time.Time
	shared    goroutineconn.Config // of sessions that have a goroutine

	counters    [counterShards]counters
	watchdog    watchdog
	loops       loops
	spare       *eventloop.Pool[*goroutineconn.Conn] // runs sessions that have a goroutine
	tasks       waitList[*Session]                   // sessions whose tasks the executor has no room for: see executor.go
	sockets     datagram.Sockets
	closing     chan struct{}  // closed by Close and Shutdown
	pendingDone sync.WaitGroup // counts pending; added to under mu while the server is not closed

	mu sync.Mutex
	// Guarded by mu.
	closed      bool
	listeners   map[net.Listener]int // how many calls of Serve use each
	pending     map[*pendingConn]struct{}
	live        []*Session // in any order; each session knows its index
	packetCount int        // how many of them are over datagrams
	lastID      uint64
	shed        uint64 // connections that closed listeners have shed
	limits      map[Limits]*settings
	addresses   map[netip.Addr]int // used only if sessions per address are bounded
	empty       chan struct{}      // closed when the server is closed and no session is left
}

// NewServer makes a server whose sessions begin with codec and handler. The codec must be stateless, or nil if Open of the handler sets one for
// each session with [Session.SetCodec]. With a nil handler, messages are decoded and dropped. Nil options mean all defaults.
func NewServer(codec Codec, h *Handler, o *Options) *Server {
	if h == nil {
		h = new(Handler)
	}
	own := *h
	srv := &Server{
		o: o.settings(), codec: codec, handler: &own, start: time.Now(),
		closing: make(chan struct{}), empty: make(chan struct{}),
		listeners: make(map[net.Listener]int), pending: make(map[*pendingConn]struct{}), addresses: make(map[netip.Addr]int),
		closedErr: ErrServerClosed,
	}
	srv.watchdog.srv, srv.watchdog.Ticker = srv, eventloop.NewTicker(watchdogTick, srv.watchdog.tick, srv.watchdog.idle)
	if srv.o.Observer != nil {
		srv.observer = *srv.o.Observer
	}
	srv.pools = buffer.NewPools(srv.o.read)
	srv.o.writer.Pools = srv.pools
	srv.shared = goroutineconn.Config{Pools: srv.pools, Now: srv.clock, Epoch: srv.start, FreshAfter: int64(freshAfter)}
	srv.spare = eventloop.NewPool(spareKept, (*goroutineconn.Conn).Run, srv.watchdog.Start)
	return srv
}

// Attach holds what a session given to ServeConn has of its own. For zero fields it has what the server's sessions have.
type Attach struct {
	Codec   Codec    // the session's own codec
	Handler *Handler // the session's own handler; must not be changed afterwards
	Limits  Limits   // the session's own limits
	Initial []byte   // bytes of the peer that were read already, before TLS if the server begins it; copied
	Value   any      // what Session.Value returns from the start

	// Made is called with the session before it runs, so that Value can refer to it. It may keep the session, and must not use it yet.
	Made func(s *Session)
}

// ServeConn runs a session on a connection that was accepted elsewhere, and perhaps upgraded by another protocol. It starts the session and
// returns. The connection belongs to the session; if there is an error, it is closed. With a nil Attach the session is like one that Serve
// accepts. The errors are [ErrServerClosed], [ErrLimit], and [ErrTooLarge] if Initial is longer than any message may be.
func (srv *Server) ServeConn(conn net.Conn, at *Attach) (*Session, error) {
	srv.o.tcp().SetOn(conn)
	return srv.attach(conn, at)
}

// attach does the work of ServeConn for a connection whose socket options have been set.
func (srv *Server) attach(conn net.Conn, at *Attach) (*Session, error) {
	s := newSession(srv, at)
	if at != nil && len(at.Initial) > 0 && srv.needsTLS(conn) {
		conn = &sockopt.Preread{Conn: conn, Unread: bytes.Clone(at.Initial)}
	} else if at != nil && !s.in.Add(at.Initial) {
		s.in.Release()
		_ = conn.Close()
		return nil, fmt.Errorf("session: initial bytes: %w", ErrTooLarge)
	}
	if err := srv.run(s, conn); err != nil {
		return nil, err
	}
	return s, nil
}

// run gives s its connection and engine, and begins it.
func (srv *Server) run(s *Session, conn net.Conn) error {
	if !srv.toLoop(s, conn) {
		if srv.needsTLS(conn) {
			conn = tls.Server(conn, srv.o.TLS)
		}
		s.onGoroutine(conn)
	}
	return srv.begin(s)
}

// needsTLS reports whether the server has to begin TLS on conn: TLS is configured, and conn does not speak it already.
func (srv *Server) needsTLS(conn net.Conn) bool {
	if srv.o.TLS == nil {
		return false
	}
	_, secure := conn.(interface{ ConnectionState() tls.ConnectionState })
	return !secure
}

// toLoop makes s a session on a loop, and reports whether there is one for such a connection.
func (srv *Server) toLoop(s *Session, conn net.Conn) bool {
	if srv.needsTLS(conn) {
		return srv.loops.adoptTLS(s, conn)
	}
	return srv.loops.adopt(s, conn)
}

// begin adds s to the live sessions and starts it. If a limit forbids that, it closes the connection.
func (srv *Server) begin(s *Session) error {
	if err := srv.addSession(s); err != nil {
		srv.refused(s.RemoteAddr(), err)
		s.in.Release()
		s.c.reject()
		return err
	}
	s.c.start()
	return nil
}

// clock returns the server's time, in nanoseconds since it was made.
func (srv *Server) clock() int64 { return int64(time.Since(srv.start)) }

// deadline returns the time at which limit will have passed. If limit is 0, that is never, which is 0 as well.
func (srv *Server) deadline(limit time.Duration) int64 {
	if limit == 0 {
		return 0
	}
	return srv.clock() + int64(limit)
}

// Sessions iterates over the sessions that are live when the iteration begins. A session may end meanwhile. Under the Wait policy, sending to
// all of them is as slow as the slowest peer: see the section on fan-out, and [Options].
func (srv *Server) Sessions() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		all := srv.snapshot()
		for _, s := range all {
			if !yield(s) {
				return
			}
		}
	}
}

func (srv *Server) snapshot() []*Session {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return slices.Clone(srv.live) // no session is touched here: to load thousands into the cache would take longer than all else
}

// Len returns the number of live sessions.
func (srv *Server) Len() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return len(srv.live)
}

// Close stops listening and ends all sessions at once, ByLocal with [ErrServerClosed]. It waits until the last one has ended, so also for a
// handler that blocks, however long. If a handler calls it, it does not wait. It always returns nil.
func (srv *Server) Close() error {
	srv.stopAccepting()
	srv.abort()
	if !inHandler() {
		<-srv.empty
		srv.waitGoroutines()
	}
	return nil
}

// abort ends all sessions and reports whether there were any.
func (srv *Server) abort() (found bool) {
	for s := range srv.Sessions() {
		s.Abort(srv.closedErr)
		found = true
	}
	return found
}

// waitGoroutines waits for goroutines that belong to no session.
func (srv *Server) waitGoroutines() {
	srv.pendingDone.Wait()
	srv.loops.wait() // before the watchdog, which threads of loops and spare goroutines may start
	srv.spare.Wait()
	srv.sockets.Wait()
	srv.watchdog.Wait()
}

// Shutdown stops listening, calls Drain of the handler for every session, and waits until all sessions have ended. Without Drain, sessions end
// gently. Drain is called as soon as the messages that a session is handling have been handled. If Drain does not end its session, the session
// ends when its peer leaves. If ctx is done first, Shutdown closes the remaining sessions as Close does, and returns the context's error. That
// also releases a Drain that waits for its peer. If a handler calls Shutdown, it does not wait.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.stopAccepting()
	over := srv.drain(ctx)
	if !over && inHandler() {
		return nil
	}
	if !over {
		select {
		case <-srv.empty:
			srv.waitGoroutines()
			return nil
		case <-ctx.Done():
		}
	}
	_ = srv.Close()
	return fmt.Errorf("session: shutdown: %w", ctx.Err())
}

// drain calls Drain for every session. If ctx is done before that, it ends all sessions instead, and reports whether there were any.
func (srv *Server) drain(ctx context.Context) (over bool) {
	aborted := make(chan bool, 1)
	stop := context.AfterFunc(ctx, func() { aborted <- srv.abort() })
	defer func() {
		if !stop() {
			over = <-aborted
		}
	}()
	for s := range srv.Sessions() {
		if ctx.Err() != nil {
			return false
		}
		s.out.Lock()
		s.drainOwed = true
		drain := s.takeDrainLocked()
		s.out.Unlock()
		if drain {
			s.drainOnce()
		}
	}
	return false
}

// stopAccepting closes the listeners, so that no session follows.
func (srv *Server) stopAccepting() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if !srv.closed {
		srv.closeLocked()
	}
}

func (srv *Server) closeLocked() {
	srv.closed = true
	close(srv.closing)
	for ln := range srv.listeners {
		_ = ln.Close()
	}
	srv.sockets.Stop()
	for a := range srv.pending {
		a.cancel()
	}
	srv.emptyLocked()
}

// emptyLocked stops everything that belongs to no session, if the server is closed and no session is left.
func (srv *Server) emptyLocked() {
	if srv.closed && len(srv.live) == 0 {
		srv.loops.stop()
		srv.spare.TrimIdle(true)
		srv.watchdog.Stop()
		close(srv.empty)
	}
}
