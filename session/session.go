package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/goroutineconn"
	"github.com/sluice-push/sluice/internal/writer"
	"github.com/sluice-push/sluice/transport"
)

// Session is one live connection with identity. All methods may be called by any goroutine at any time, unless they say otherwise. They do not
// block, with these exceptions: Close; Receive and Messages, which wait for messages; WriteLarge and WriteFile, which wait until a large frame
// is written; Send, SendAs, Write and WriteShared under the Wait policy; and all calls that send over a socket for datagrams that is not a
// *udp.Conn.
type Session struct {
	// The order of the fields is that of use: a session among thousands is not in the processor's cache when its dispatch begins. The first
	// lines of the cache hold the fields for a write on an idle connection, the next ones those for a read and a decode. A session has 568
	// bytes.

	// "The lock" is the mutex of out. "The dispatching goroutine" is the one that dispatches the session at that time: see engineConn.

	// Set when made, except for id, which is set when the session is added.
	srv   *Server
	c     engineConn
	value anyValue
	id    uint64

	packet *packetConn   // the engine, if the session is over datagrams
	phase  atomic.Uint32 // written with the lock held
	fd     int32         // the socket of a session on a loop, -1 when it is closed; guarded by the lock

	out writer.Writer // the write path

	// Guarded by the lock.
	slot         uint8   // 1 + the slot of the session in watchdog.corked, or 0
	notifying    bool    // a goroutine runs notify
	firstWait    bool    // the codec has not used any bytes yet
	opened       bool    // Open was called; written by the dispatching goroutine
	ready        bool    // Open has returned
	drainOwed    bool    // Drain has to be called when the session is ready and no message is being handled
	endMode      endMode // what an ending session does when everything is written
	writeClosed  bool    // the connection has been half-closed
	discardInput bool    // input is dropped without decoding; owned by the dispatching goroutine
	paused       bool    // input was left for later; owned by the dispatching goroutine
	reset        bool    // the peer has reset the connection

	// Written by the dispatching goroutine with the lock held.
	h     *Handler
	codec Codec

	// Owned by the dispatching goroutine.
	replier  Replier
	o        *settings // written with the lock held
	pull     *pull     // nil if messages are handled; written with the lock held
	in       buffer.Inbound
	handled  uint32        // messages of this read that have been handled but not counted
	helpers  int32         // goroutines that helpLocked has started; guarded by the lock
	lastRead atomic.Int64  // when bytes arrived last; all times are those of the server's clock
	task     *executorTask // of a session with an executor; set when made

	// Of the engine.
	gor  *goroutineconn.Conn // nil on a loop
	loop loopState

	// Set when made.
	peer  netip.AddrPort         // of the peer, for limits; not valid for a Unix socket
	proxy *transport.ProxyHeader // or nil
	place int32                  // index in the server's list of sessions; guarded by the server's mutex

	// Guarded by the lock. The end: see close.go.
	info     *CloseInfo
	endBy    int64 // when the wait for first bytes, or the gentle end, times out; 0 is never
	nextTick int64 // when Tick is due; 0 is never

	done sync.WaitGroup // done when the session has ended and Close of its handler has returned
}

// The phases of a session.
const (
	phaseOpen   uint32 = iota
	phaseEnding        // no more frames are accepted and no more messages are handled; queued frames are still written
	phaseClosed        // nothing is read or written
)

// newSession makes a session that has no engine yet.
func newSession(srv *Server, at *Attach) *Session {
	s := &Session{srv: srv, h: srv.handler, o: &srv.o, firstWait: at == nil}
	s.out.Init((*owner)(s), &s.o.writer)
	s.in.Pool, s.in.PartialPools = &srv.pools.Read, srv.pools
	if at != nil {
		s.o = srv.limited(at.Limits)
		s.out.SetConfig(&s.o.writer)
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
		s.task = &executorTask{run: s.execute, done: make(chan bool, 1), place: waitNode[*Session]{Value: s}}
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

// ID returns the session's number: unique within its server, never used again, at least 1.
func (s *Session) ID() uint64 { return s.id }

// RemoteAddr returns the address of the peer, also after the session has ended.
func (s *Session) RemoteAddr() net.Addr { return s.c.remote() }

// LocalAddr returns the address on this side, also after the session has ended.
func (s *Session) LocalAddr() net.Addr { return s.c.local() }

// Conn returns the connection under the session, for example to ask for the state of its TLS. Only the session may read, write or close it, or
// set its deadlines. Conn returns nil for sessions over datagrams that share a socket.
func (s *Session) Conn() net.Conn { return s.c.net() }

// ProxyHeader returns the PROXY header of a session that Serve accepted through a [transport.Listener], or nil if there was none. It must not be
// changed.
func (s *Session) ProxyHeader() *transport.ProxyHeader { return s.proxy }

// SetCodec changes the codec for the bytes and messages that follow. It may be called from Open, Message and Tick only. The message that is
// being handled stays valid.
func (s *Session) SetCodec(c Codec) {
	s.out.Lock()
	s.codec = c
	s.out.SetEncoder(c)
	s.out.Unlock()
	s.replier, _ = c.(Replier)
	s.in.Need = 0
}

// Value returns the value that SetValue was last given. Before that it returns [Attach].Value, or nil.
func (s *Session) Value() any { return s.value.Load() }

// SetValue stores a value of the caller with this session. Usually it is called once, in Open, with a pointer, which costs least.
func (s *Session) SetValue(v any) { s.value.Store(v) }

// Close ends the session at once, and waits until Close of its handler has returned. Bytes that the connection does not take at once are
// dropped. If a handler of any session calls Close, it does not wait: it might wait for the handler that called it. Another call of Close only
// waits.
func (s *Session) Close() {
	s.Abort(ErrClosed)
	if inHandler() {
		return
	}
	s.done.Wait()
	if s.srv.single {
		s.srv.waitGoroutines()
	}
}

// Abort ends the session at once, ByLocal with cause, and does not wait. Bytes that the connection does not take at once are dropped.
func (s *Session) Abort(cause error) { s.fail(ByLocal, orClosed(cause)) }

// End ends the session gently, ByLocal with cause. Queued frames are written, and then last, an encoded frame, unless it is empty. Then the
// connection is half-closed, if it can be, and the peer has Options.Linger to end its side. End returns at once, and copies last. From now on no
// frames are accepted and no messages are handled. If the session is ending or has ended, End does nothing.
func (s *Session) End(last []byte, cause error) {
	s.end(&CloseInfo{By: ByLocal, Err: orClosed(cause)}, last, linger)
}

// EndWait is [Session.End] for protocols with a closing handshake, such as WebSocket (RFC 6455, section 7.1). Their peers may take an end of the
// stream right behind the closing frame for a broken connection. So EndWait half-closes only when the peer has sent its closing frame, which is
// any error of the codec, or has half-closed. Messages that come before that are decoded, but neither handled nor replied to. Options.Linger
// bounds the wait for both the closing frame and the peer's end. Without Options.Linger, and over datagrams, there is no wait. EndWait itself
// returns at once.
func (s *Session) EndWait(last []byte, cause error) {
	s.end(&CloseInfo{By: ByLocal, Err: orClosed(cause)}, last, awaitPeer)
}

func orClosed(err error) error {
	if err == nil {
		return ErrClosed
	}
	return err
}

// errLocked returns the error of a call that sends, or nil if the session is open.
func (s *Session) errLocked() error {
	if s.phase.Load() == phaseOpen {
		return nil
	}
	if s.info == nil || errors.Is(s.info.Err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, s.info.Err)
}
