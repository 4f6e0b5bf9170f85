package session

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/internal/atomicany"
	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/waitlist"
	"github.com/sluice-push/sluice/transport"
)

// Session is one live connection with identity. All methods may be called by any goroutine at any time, unless they say
// otherwise, and none ever blocks but Close, those that wait for messages (Receive, Messages), those that wait until a large frame is
// written (WriteLarge, WriteFile), and Send, Write and WriteShared under the Wait policy.
type Session struct {
	// The order is that of use, for a session of thousands is cold when its turn comes: what it takes to send a frame on an idle
	// connection lies in the first 128 bytes, what it takes to read and decode one in the next. An idle session is 568 bytes.

	// Set when made; id, when it is admitted.
	srv   *Server
	c     carrier
	value atomicany.Value
	id    uint64

	packet *packetPeer   // the carrier, if the session is over datagrams; set when made
	phase  atomic.Uint32 // written under mu by anybody
	// Guarded by mu. The write path: see write.go.
	pen       pen
	corked    bool   // the messages of one read are being handled
	overdue   bool   // the watch has seen the cork before
	slot      uint8  // 1 + the slot in which the watch knows of the cork, or 0
	want      bool   // TryWrite was refused and Writable is owed
	notifying bool   // a goroutine is in notify
	handshake bool   // the codec has not used anything yet
	opened    bool   // Open was called; written only by who has the turn
	ready     bool   // Open has returned
	goodbye   bool   // Drain is owed when it has, and nothing is being handled
	handling  bool   // the messages of one read are being handled, corked or not
	manner    manner // what an ending session does when all is written
	half      bool   // it has done so
	discard   bool   // what arrives is thrown away undecoded; owned by who has the turn
	paused    bool   // messages were left for later; owned by the turn
	reset     bool   // the peer has reset the connection
	mu        sync.Mutex
	fd        int32 // a loop's: −1 when it is closed
	q         *buffer.Queue
	gathered  *buffer.Batch // what was sent meanwhile: see gather.go
	// Written by who has the turn, under mu.
	h       *Handler
	codec   Codec
	encoder Encoder // the codec, or nil

	// Owned by who has the turn.
	replier  Replier
	replies  []byte
	o        *settings // written under mu
	pull     *pull     // or nil; written under mu
	in       buffer.Inbound
	handled  uint32       // messages of this read that were handled and are not counted
	helpers  int32        // goroutines in drain, notify and abort; guarded by mu
	lastRead atomic.Int64 // by the server's clock, as all times here
	errand   *errand      // with an executor; set when made

	// The engine's: a connection and its goroutine (routine.go), or a seat in a loop (bare_linux.go).
	own  *own // nil on a loop
	seat seat

	// Set when made.
	proxy *transport.ProxyHeader // or nil
	place int32                  // among the server's; guarded by its mutex

	unwritten atomic.Int32 // how much has to be written before another message is handled: see backpressure.go; written under mu
	// Guarded by mu.
	lost    int   // bytes that were gathered and could not be written any more
	waiters *line // who waits for room in the queue, nil if nobody does
	// The end: see close.go.
	info     *CloseInfo
	endBy    int64 // when the handshake, or an ending session, is over at the latest; 0 is never
	nextTick int64 // when Tick is called again; 0 is never

	done sync.WaitGroup // the turn, and with it everything
}

// The phases of a session.
const (
	phaseOpen   uint32 = iota
	phaseEnding        // no more writes are accepted, no more messages are handled; what waits is still written
	phaseClosed        // nothing is read or written
)

// newSession makes a session that is not yet running.
func newSession(srv *Server, at *Attach) *Session {
	s := &Session{srv: srv, h: srv.handler, o: &srv.o, handshake: at == nil}
	s.in.Pool, s.in.Aside = &srv.pools.Read, srv.pools
	if at != nil {
		s.o = srv.limited(at.Limits)
	}
	s.in.Limit = s.o.MaxMessage + headerSlack
	codec := srv.codec
	if at != nil {
		if at.Handler != nil {
			s.h = at.Handler
		}
		if at.Codec != nil {
			codec = at.Codec
		}
		s.value.Store(at.Value)
	}
	s.SetCodec(codec)
	if srv.o.Executor != nil {
		s.errand = &errand{task: s.execute, done: make(chan bool, 1), place: waitlist.Node[*Session]{Value: s}}
	}
	if s.h.Pull {
		s.pullLocked()
	}
	s.done.Add(1)
	if at != nil && at.Made != nil {
		at.Made(s)
	}
	return s
}

// onRoutine makes s a session with a goroutine of its own.
func (s *Session) onRoutine(conn net.Conn) {
	s.own, s.c = &own{conn: conn}, (*routine)(s)
	s.own.io = newStream(s)
}

// Queued returns how many bytes wait to be written because the connection took no more, without those of large frames. What is being
// written just now counts. Over datagrams, which do not wait, it is 0.
func (s *Session) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q == nil {
		return 0
	}
	return s.q.Bytes()
}

// ID returns the session's number: unique within its server, never used again, at least 1.
func (s *Session) ID() uint64 { return s.id }

// RemoteAddr returns the address of the peer, also after the session has ended.
func (s *Session) RemoteAddr() net.Addr { return s.c.remote() }

// LocalAddr returns the address on this side, also after the session has ended.
func (s *Session) LocalAddr() net.Addr { return s.c.local() }

// Conn returns the connection under the session, for what only it knows, such as the state of its TLS. Reading, writing, closing
// and setting deadlines are the session's alone. It is nil for sessions over datagrams that share a socket.
func (s *Session) Conn() net.Conn { return s.c.net() }

// ProxyHeader returns what a proxy said of the connection, for sessions that Serve accepted through a [transport.Listener] with PROXY
// headers; otherwise nil. It must not be changed.
func (s *Session) ProxyHeader() *transport.ProxyHeader { return s.proxy }

// SetCodec changes the codec for everything that comes after. It may be called from Open, Message and Tick only; the message that is
// being handled stays valid as if the old codec were still there.
func (s *Session) SetCodec(c Codec) {
	s.mu.Lock()
	s.codec, s.encoder = c, c
	s.mu.Unlock()
	s.replier, _ = c.(Replier)
	s.in.Need = 0
}

// Value returns what SetValue was last given; before that what [Attach].Value was, or nil.
func (s *Session) Value() any { return s.value.Load() }

// SetValue keeps the user's state of this session. Usually it is called once, in Open, with a pointer, which is what costs least.
func (s *Session) SetValue(v any) { s.value.Store(v) }

// Close ends the session at once, drops what the connection does not take at once, and waits until Close of its handler has returned. Called from any
// handler of any session it does not wait: what is running there may be what it would wait for. Closing again only waits.
func (s *Session) Close() {
	s.Abort(ErrClosed)
	if inHandler() {
		return
	}
	s.done.Wait()
	if s.srv.single {
		s.srv.ended()
	}
}

// Abort ends the session at once, ByLocal with cause, and drops what the connection does not take at once. It does not wait.
func (s *Session) Abort(cause error) { s.fail(ByLocal, orClosed(cause)) }

// End ends the session gently, ByLocal with cause: after all that waits it writes last, a frame already encoded, or nothing when
// it is empty; then tells the peer that nothing more comes (on connections that can), and waits for the peer to end as well, for at
// most Options.Linger. It returns at once; last is copied. From now on nothing more is accepted for writing and no more messages
// are handled. A session that is ending or has ended stays as it is.
func (s *Session) End(last []byte, cause error) {
	s.end(&CloseInfo{By: ByLocal, Err: orClosed(cause)}, last, lingers)
}

// EndWait is [Session.End] for protocols whose peers answer a goodbye, such as WebSocket (RFC 6455, section 7.1), and may take an end of
// the stream right behind it for a broken connection. That is told only when the peer has said goodbye too, which is any error of the
// codec, or has half-closed. What comes before is decoded, and neither handled nor replied to. Options.Linger bounds the wait for both the
// goodbye and the peer's end; without it, and over datagrams, nobody is waited for. EndWait itself does not wait: it returns at once.
func (s *Session) EndWait(last []byte, cause error) {
	s.end(&CloseInfo{By: ByLocal, Err: orClosed(cause)}, last, awaits)
}

func orClosed(err error) error {
	if err == nil {
		return ErrClosed
	}
	return err
}

// errLocked says why nothing can be sent, or nil.
func (s *Session) errLocked() error {
	if s.phase.Load() == phaseOpen {
		return nil
	}
	if s.info == nil || errors.Is(s.info.Err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, s.info.Err)
}
