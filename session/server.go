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
	"github.com/sluice-push/sluice/internal/crew"
	"github.com/sluice-push/sluice/internal/prefetch"
	"github.com/sluice-push/sluice/internal/pulse"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/internal/waitlist"
)

// Server runs sessions: those that it accepts in Serve and those given to ServeConn. All methods may be called concurrently.
type Server struct {
	// Set when made.
	o        settings
	codec    Codec
	handler  *Handler
	pools    *buffer.Pools
	observer Observer
	shut     error // what is returned after Close
	single   bool  // closed when its session ends
	start    time.Time

	freshAfter int64 // see routine.go

	counters [counterShards]counters
	watch    watch
	loops    loops
	crew     *crew.Crew[*Session]    // runs sessions that have a goroutine
	hiring   waitlist.List[*Session] // errands that the executor has no room for: see errand.go
	sockets  packetSockets
	closing  chan struct{}  // closed by Close and Shutdown
	arrivals sync.WaitGroup // what is in arriving; added to under mu while the server is not closed

	mu sync.Mutex
	// Guarded by mu.
	closed      bool
	listeners   map[net.Listener]int // how many calls of Serve there are for each
	arriving    map[*arrival]struct{}
	live        []*Session // in any order; each knows its place
	packetCount int        // how many of those are over datagrams
	lastID      uint64
	shed        uint64 // by listeners that are closed
	limits      map[Limits]*settings
	addresses   map[netip.Addr]int // only with a bound on sessions per address
	empty       chan struct{}      // closed when closing and no session is left
}

// NewServer makes a server whose sessions begin with codec and handler. The codec must be stateless, or nil if Open of the handler
// sets one for each session with [Session.SetCodec]. A nil handler handles nothing; nil options are all defaults.
func NewServer(codec Codec, h *Handler, o *Options) *Server {
	if h == nil {
		h = new(Handler)
	}
	own := *h
	srv := &Server{
		o: o.settings(), codec: codec, handler: &own, start: time.Now(),
		closing: make(chan struct{}), empty: make(chan struct{}),
		listeners: make(map[net.Listener]int), arriving: make(map[*arrival]struct{}), addresses: make(map[netip.Addr]int),
		shut: ErrServerClosed, freshAfter: int64(freshAfter),
	}
	srv.watch.srv, srv.watch.Watch = srv, pulse.NewWatch(watchTick, srv.watch.look, srv.watch.quiet)
	if srv.o.Observer != nil {
		srv.observer = *srv.o.Observer
	}
	srv.pools = buffer.NewPools(srv.o.read)
	srv.crew = crew.New(crewKept, (*Session).run, srv.watch.Ensure)
	return srv
}

// Attach says how a session given to ServeConn differs from those that the server accepts itself. Zero fields are the server's.
type Attach struct {
	Codec   Codec    // the session's own codec
	Handler *Handler // the session's own handler; must not be changed afterwards
	Limits  Limits   // the session's own limits
	Initial []byte   // bytes of the peer that were read already, before TLS if the server begins it; copied
	Value   any      // what Session.Value returns from the start

	// Made is called with the session before it runs, for a Value that refers to it. It may keep it, and nothing else.
	Made func(s *Session)
}

// ServeConn runs a session on a connection that was accepted elsewhere, and perhaps upgraded by another protocol. It starts the
// session's goroutine and returns. The connection belongs to the session, also when an error is returned: then it is closed.
// A nil Attach makes it a session like those that Serve accepts. Errors: [ErrServerClosed], [ErrLimit], and [ErrTooLarge] if Initial
// is longer than any message may be.
func (srv *Server) ServeConn(conn net.Conn, at *Attach) (*Session, error) {
	srv.o.tcp().SetOn(conn)
	return srv.attach(conn, at)
}

// attach runs a session on a connection whose socket has its options.
func (srv *Server) attach(conn net.Conn, at *Attach) (*Session, error) {
	s := newSession(srv, at)
	if at != nil && len(at.Initial) > 0 && srv.secures(conn) {
		conn = &socket.Preread{Conn: conn, Unread: bytes.Clone(at.Initial)}
	} else if at != nil && !s.in.Add(at.Initial) {
		s.in.Drop()
		_ = conn.Close()
		return nil, fmt.Errorf("session: initial bytes: %w", ErrTooLarge)
	}
	if err := srv.run(s, conn); err != nil {
		return nil, err
	}
	return s, nil
}

// run gives s a connection and begins it.
func (srv *Server) run(s *Session, conn net.Conn) error {
	if !srv.sit(s, conn) {
		if srv.secures(conn) {
			conn = tls.Server(conn, srv.o.TLS)
		}
		s.onRoutine(conn)
	}
	return srv.begin(s)
}

// secures reports whether TLS is to be begun on conn: it is configured, and conn does not speak it already.
func (srv *Server) secures(conn net.Conn) bool {
	if srv.o.TLS == nil {
		return false
	}
	_, secure := conn.(interface{ ConnectionState() tls.ConnectionState })
	return !secure
}

// sit gives s a seat in a loop, if there is one for such a connection.
func (srv *Server) sit(s *Session, conn net.Conn) bool {
	if srv.secures(conn) {
		return srv.loops.seatTLS(s, conn)
	}
	return srv.loops.seat(s, conn)
}

// begin admits s and starts it, or closes its connection.
func (srv *Server) begin(s *Session) error {
	if err := srv.enter(s); err != nil {
		srv.refused(s.RemoteAddr(), err)
		s.in.Drop()
		s.c.reject()
		return err
	}
	s.c.start()
	return nil
}

// clock is the server's time, in nanoseconds since it was made.
func (srv *Server) clock() int64 { return int64(time.Since(srv.start)) }

// by returns when limit has passed; never, which is 0, if there is none.
func (srv *Server) by(limit time.Duration) int64 {
	if limit == 0 {
		return 0
	}
	return srv.clock() + int64(limit)
}

// sessionsAhead is for how many sessions ahead Sessions asks for memory.
const sessionsAhead = 4

// Sessions visits the sessions that are live when it begins. A session may end while it is being visited. Who sends something to all of them
// under the Wait policy goes at the pace of the slowest: see the section on fan-out, and [Options].
func (srv *Server) Sessions() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		all := srv.snapshot()
		for i, s := range all {
			if i+sessionsAhead < len(all) { // what is sent to each of thousands finds them cold
				prefetch.Value(all[i+sessionsAhead])
				prefetch.Value(all[i+sessionsAhead/2].Value())
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (srv *Server) snapshot() []*Session {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return slices.Clone(srv.live) // without a look at any, for that would take longer than all else
}

// Len returns the number of live sessions.
func (srv *Server) Len() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return len(srv.live)
}

// Close stops listening and ends all sessions at once, ByLocal with [ErrServerClosed]. It waits until the last one has ended, so
// also for a handler that blocks, however long; called from a handler it does not wait. It always returns nil.
func (srv *Server) Close() error {
	srv.stopAccepting()
	srv.abort()
	if !inHandler() {
		<-srv.empty
		srv.ended()
	}
	return nil
}

// abort ends all sessions and reports whether there were any.
func (srv *Server) abort() (found bool) {
	for s := range srv.Sessions() {
		s.Abort(srv.shut)
		found = true
	}
	return found
}

// ended waits for goroutines that are no session's.
func (srv *Server) ended() {
	srv.arrivals.Wait()
	srv.loops.wait() // drivers start the watch, as does the crew
	srv.crew.Wait()
	srv.sockets.work.Wait()
	srv.watch.Wait()
}

// Shutdown stops listening, calls Drain of the handler for every session, or ends it gently if there is none, as soon as the messages that
// the session is handling have been handled, and waits until all sessions have ended: those that Drain does not end when their peers leave. When ctx is
// done first it closes the rest as Close does, which lets go of a Drain that waits for its peer, and returns the context's error.
// Called from a handler it does not wait.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.stopAccepting()
	over := srv.drain(ctx)
	if !over && inHandler() {
		return nil
	}
	if !over {
		select {
		case <-srv.empty:
			srv.ended()
			return nil
		case <-ctx.Done():
		}
	}
	_ = srv.Close()
	return fmt.Errorf("session: shutdown: %w", ctx.Err())
}

// drain calls Drain for every session. If ctx is done before that it ends them all instead, and reports it.
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
		s.mu.Lock()
		s.goodbye = true
		drain := s.owesDrainLocked()
		s.mu.Unlock()
		if drain {
			s.drainOnce()
		}
	}
	return false
}

// stopAccepting closes the listeners. From now on no session comes.
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
	srv.sockets.stop()
	for a := range srv.arriving {
		a.cut()
	}
	srv.emptyLocked()
}

// emptyLocked says that no session is left, if that is so for good.
func (srv *Server) emptyLocked() {
	if srv.closed && len(srv.live) == 0 {
		srv.loops.stop()
		srv.crew.Dismiss(true)
		srv.watch.End()
		close(srv.empty)
	}
}
