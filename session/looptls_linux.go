package session

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/goroutineconn"
	"github.com/sluice-push/sluice/internal/sockopt"
	"github.com/sluice-push/sluice/internal/tlsmem"
	"github.com/sluice-push/sluice/transport"
)

// loopTLSConn is the engine of a session that speaks TLS on an event loop. Its first work is the handshake, unless that was made by others: see
// adoptSecured. A goroutine does it over the connection of package net, while the session already has its registration and a duplicate of the descriptor. To the rest of the engine, the
// connection has no room yet and is not watched. After the handshake the connection is closed, and TLS works in memory (package tlsmem).
//
// The dispatching goroutine reads. It decrypts and handles all bytes that one read brings, so that at most a part of a record is left, inside
// crypto/tls. The goroutine in the Writing state writes one record at a time, and begins the next one when the last one has been sent. If a
// record finds no room, it is held (HasPending), and the state becomes WaitWritable. TLS itself also writes, when it answers its peer. If no other
// goroutine is writing, the dispatching goroutine sends these bytes.
type loopTLSConn struct {
	*loopConn
	mem   *tlsmem.Conn
	plain int            // size of the record that is being sent, before encryption; owned by the goroutine in the Writing state
	left  *buffer.Buffer // bytes that an executor, or a pause, has left encrypted; owned by the dispatching goroutine
}

// adoptTLS is adopt for a session that is to speak TLS over conn.
func (ls *loops) adoptTLS(s *Session, conn net.Conn) bool {
	b := ls.newTLS(s, conn)
	if b == nil {
		return false
	}
	b.mem = tlsmem.NewServer(conn, s.srv.o.TLS, b, &ls.secrets.Pool)
	s.loop.dup = &conn
	return true
}

// adoptSecured is adopt for a connection that speaks TLS already, if it was made by [transport.ServerTLS].
func (ls *loops) adoptSecured(s *Session, conn *tls.Conn) bool {
	mem := tlsmem.Of(conn)
	if mem == nil || !conn.ConnectionState().HandshakeComplete {
		return false
	}
	below := mem.Conn()
	b := ls.newTLS(s, below)
	if b == nil {
		return false
	}
	b.mem = mem
	mem.Move(b, &ls.secrets.Pool)
	mem.Detach()
	_ = below.Close() // the socket stays open: s.fd is a duplicate
	s.loop.on.Visit()
	return true
}

// newTLS makes s a session on a loop that speaks TLS over conn. If it returns nil, a goroutine must run s. The caller sets mem.
func (ls *loops) newTLS(s *Session, conn net.Conn) *loopTLSConn {
	if s.srv.o.Engine == EngineGoroutine {
		return nil
	}
	d, ok, err := transport.Duplicate(conn)
	if !ok || err != nil {
		return nil
	}
	failed := func(err error) {
		s.srv.o.Logger.Info("session: TLS on event loops not supported by this Go version, using goroutines", "error", err)
	}
	if len(ls.get(s.srv)) == 0 || !ls.secrets.Works(failed) {
		_ = d.Close()
		return nil
	}
	ls.register(s, d)
	if d.Unix {
		s.loop.ends = &sockopt.AddrPair{Local: conn.LocalAddr(), Remote: conn.RemoteAddr()}
	}
	b := &loopTLSConn{loopConn: (*loopConn)(s)}
	s.c, s.loop.tls = b, b
	s.out.SetSocket(noSocket)
	return b
}

// LocalAddr, RemoteAddr and Socket are the methods that tlsmem needs for the connection of crypto/tls.
func (b *loopTLSConn) LocalAddr() net.Addr  { return b.local() }
func (b *loopTLSConn) RemoteAddr() net.Addr { return b.remote() }
func (b *loopTLSConn) Socket() net.Conn     { return b.loopConn.net() }

func (b *loopTLSConn) net() net.Conn { return b.mem.TLS() }

func (b *loopTLSConn) HasPending() bool { return b.mem.Pending() > 0 }

// start runs the handshake, if it has not been made, and then Open, on a spare goroutine.
func (b *loopTLSConn) start() {
	if b.mem.Detached() {
		b.loopConn.start()
		return
	}
	s := b.session()
	s.out.Lock()
	if s.phase.Load() == phaseClosed { // the server was closed; changedLocked has posted the session
		s.out.Unlock()
		return
	}
	s.loop.reg.Offloaded = true
	s.out.Unlock()
	s.srv.loops.spare.Run(offloaded{s, work{handshake: true, open: true}})
}

func (b *loopTLSConn) reject() {
	b.loopConn.reject()
	if b.loop.dup != nil {
		_ = (*b.loop.dup).Close()
	}
}

// handshake makes the TLS handshake, and then has the loop watch the session. It reports whether the session goes on.
func (b *loopTLSConn) handshake() bool {
	s := b.session()
	err := goroutineconn.Handshake(b.mem.TLS(), s.o.HandshakeTimeout)
	if err != nil {
		s.handshakeFailed(err)
	}
	s.out.Lock()
	defer s.out.Unlock()
	_ = (*s.loop.dup).Close() // the socket stays open: s.fd is a duplicate
	s.loop.dup = nil
	if err != nil || s.phase.Load() == phaseClosed {
		return false
	}
	b.mem.Detach()
	s.startClocksLocked()
	s.loop.stalledSince = s.srv.clock()
	if err = s.loop.on.Add(&s.loop.reg, s.fd, s.interestLocked()); err != nil {
		s.failLocked(ByError, err)
		return false
	}
	return true
}

// readOnce is Session.readOnce over TLS: it reads the bytes that are there, up to a buffer full, and handles them.
func (b *loopTLSConn) readOnce() (goOn bool) {
	s := b.session()
	wire := s.srv.pools.Shared.Get()
	n, errno := buffer.Receive(uintptr(s.fd), wire.B)
	switch {
	case errno == syscall.EAGAIN: // in the first dispatch there may be bytes that came with the handshake
		s.loop.drained = true
	case errno != 0:
		wire.Release()
		s.readEnded(os.NewSyscallError("read", errno))
		return false
	case n == 0:
		b.mem.FeedEOF()
	default:
		b.mem.Feed(wire.B[:n])
		if s.o.IdleTimeout > 0 {
			s.lastRead.Store(s.srv.clock())
		}
	}
	return b.handle(wire)
}

// handle decrypts and handles the bytes that TLS was fed. They lie in wire, unless that is nil.
func (b *loopTLSConn) handle(wire *buffer.Buffer) (goOn bool) {
	s := b.session()
	b.left = nil
	defer func() {
		if wire != nil {
			b.mem.Feed(nil)
			wire.Release()
		}
	}()
	for {
		n, err := b.decrypt(&s.in)
		if wire != nil && b.mem.Unread() == 0 { // early, because the handler may block
			wire.Release()
			wire = nil
		}
		b.answer()
		if n > 0 && !s.receive(n) {
			return false
		}
		if s.leavesExecutor() || s.paused { // the next call of handle gets the error again
			b.left, wire = wire, nil
			return true
		}
		switch {
		case err == nil:
		case errors.Is(err, tlsmem.ErrNeedMore):
			return true
		default:
			s.readEnded(err)
			return false
		}
	}
}

// decrypt reads until in is full, or until TLS has no more bytes, which is an error.
func (b *loopTLSConn) decrypt(in *buffer.Inbound) (n int, err error) {
	for {
		space := in.Space()
		if len(space) == 0 {
			if n == 0 {
				err = ErrTooLarge // as decodeAll has found before
			}
			return n, err
		}
		got, err := b.mem.Read(space)
		in.Arrived(got)
		n += got
		if err != nil || got == len(space) {
			return n, err
		}
	}
}

// answer sends bytes that TLS has written by itself. If another goroutine is writing, that goroutine sends them.
func (b *loopTLSConn) answer() {
	if !b.HasPending() {
		return
	}
	s := b.session()
	s.out.Lock()
	defer s.out.Unlock()
	if err := b.mem.Err(); err != nil {
		s.failLocked(ByError, fmt.Errorf("session: %w", err))
	}
	s.out.FlushPending()
}

func (b *loopTLSConn) TryWrite(w *buffer.Batch) (n int, err error) {
	w.Sent = 0
	if !b.mem.Detached() {
		return 0, nil
	}
	for {
		sent, err := b.flush()
		w.Sent += sent
		if !b.HasPending() {
			b.plain = 0 // bytes that TLS writes by itself belong to no frame
		}
		if err != nil || b.HasPending() || n == w.Size {
			return n, err
		}
		taken, err := b.encrypt(w, n)
		if err != nil {
			return n, err
		}
		n += taken
	}
}

func (b *loopTLSConn) TryWriteBig(l *buffer.BigFrame) (int, error) {
	return b.srv.pools.WriteCopied(l, b.TryWrite)
}

// flush sends the held bytes as far as there is room, and returns how many it has sent.
func (b *loopTLSConn) flush() (int, error) {
	s := b.session()
	return b.mem.Flush(func(p []byte) (int, error) { return buffer.Result(buffer.Send(uintptr(s.fd), p)) })
}

// encrypt encrypts one record from the bytes of w that begin at offset at, and returns how many bytes the record holds.
func (b *loopTLSConn) encrypt(w *buffer.Batch, at int) (int, error) {
	i := 0
	for at >= len(w.Parts[i]) {
		at -= len(w.Parts[i])
		i++
	}
	p := w.Parts[i][at:]
	if len(p) < tlsmem.MaxPlaintext && i+1 < len(w.Parts) { // small pieces make one record
		joined := b.session().srv.pools.Chunk.Get()
		defer joined.Release()
		n := copy(joined.B, p)
		for _, part := range w.Parts[i+1:] {
			n += copy(joined.B[n:], part)
		}
		p = joined.B[:n]
	}
	p = p[:min(len(p), tlsmem.MaxPlaintext)]
	if err := b.mem.Write(p); err != nil {
		return 0, err
	}
	b.plain = len(p)
	return len(p), nil
}

// CloseWrite sends a closing alert. If that does not find room, HasPending is true afterwards, and CloseWrite is called again later.
func (b *loopTLSConn) CloseWrite() bool {
	if !b.mem.Detached() || b.mem.CloseWrite() != nil {
		return false
	}
	if _, err := b.flush(); err != nil {
		return false
	}
	return b.HasPending() || b.loopConn.CloseWrite()
}

// abortLocked sends a closing alert if the peer can understand it, which is not so in the middle of a record. It never blocks.
func (b *loopTLSConn) abortLocked() {
	if b.fd >= 0 && b.mem.Detached() && !b.HasPending() && b.mem.CloseWrite() == nil {
		_, _ = b.flush()
	}
	b.loopConn.abortLocked()
}

// undelivered returns how many bytes were accepted and not sent, and forgets them. It is called when the session is over. For a record that was
// sent in part, it counts at most the bytes that are left of it.
func (b *loopTLSConn) undelivered() int {
	n := min(b.mem.Pending(), b.plain)
	b.mem.Release()
	if b.left != nil {
		b.mem.Feed(nil)
		b.left.Release()
		b.left = nil
	}
	s := b.session()
	s.srv.shard(s).bytesOut.Add(-uint64(n)) // TryWrite has counted them, but the socket has not taken them
	return n
}
