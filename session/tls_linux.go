package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/socket"
	"github.com/sluice-push/sluice/internal/tlsconn"
	"github.com/sluice-push/sluice/transport"
)

// bareTLS is the carrier of a session that speaks TLS on a loop. The handshake is its first turn, which is away: a goroutine makes
// it over the connection of package net, while the session has its seat and a duplicate of the descriptor already. To the rest of
// the engine that is a connection which has no room yet and is not watched. After it the connection is closed, and TLS works in
// memory: package tlsconn.
//
// Who has the turn reads: what arrives in one read is decrypted and handled in the same turn, so that nothing is left of it but part of a
// record, inside crypto/tls. Who has the pen writes: one record at a time, and none before the last has been sent; what
// there is no room for the connection holds, and the pen is not put down. TLS itself writes when it answers: who has the turn sends
// that, if nobody has the pen.
type bareTLS struct {
	*bare
	mem   *tlsconn.Conn
	plain int            // of what waits to be sent, owned by who has the pen: how many bytes it was
	left  *buffer.Buffer // what an executor has read and left; owned by who has the turn
}

// seatTLS is seat for a session that is to speak TLS over conn.
func (ls *loops) seatTLS(s *Session, conn net.Conn) bool {
	if s.srv.o.Engine == EngineGoroutine {
		return false
	}
	d, ok, err := transport.Duplicate(conn)
	if !ok || err != nil {
		return false
	}
	failed := func(err error) {
		s.srv.o.Logger.Info("session: TLS does not work on event loops with this version of Go, sessions get goroutines", "error", err)
	}
	if len(ls.get(s.srv)) == 0 || !ls.secrets.Works(failed) {
		_ = d.Close()
		return false
	}
	ls.sit(s, d)
	if d.Unix {
		s.seat.ends = &socket.Ends{Local: conn.LocalAddr(), Remote: conn.RemoteAddr()}
	}
	b := &bareTLS{bare: (*bare)(s)}
	b.mem = tlsconn.NewServer(conn, s.srv.o.TLS, b, &ls.secrets.Pool)
	s.c, s.seat.tls, s.seat.copied = b, b, conn
	return true
}

// LocalAddr, RemoteAddr and Socket are what the connection of crypto/tls tells.
func (b *bareTLS) LocalAddr() net.Addr  { return b.local() }
func (b *bareTLS) RemoteAddr() net.Addr { return b.remote() }
func (b *bareTLS) Socket() net.Conn     { return b.bare.net() }

func (b *bareTLS) net() net.Conn { return b.mem.TLS() }

func (b *bareTLS) holding() bool { return b.mem.Pending() > 0 }

// start gives the handshake, and Open after it, to a goroutine.
func (b *bareTLS) start() {
	s := b.session()
	s.mu.Lock()
	if s.phase.Load() == phaseClosed { // the server was closed; it has posted
		s.mu.Unlock()
		return
	}
	s.seat.away = true
	s.mu.Unlock()
	s.srv.loops.crew.Give(away{s, turn{greet: true, open: true}})
}

func (b *bareTLS) reject() {
	b.bare.reject()
	_ = b.seat.copied.Close()
}

// greet does the handshake, and has the session watched. It reports whether it is alive.
func (b *bareTLS) greet() bool {
	s := b.session()
	shaken := s.shake(b.mem.TLS())
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.seat.copied.Close() // the socket lives on in the duplicate
	s.seat.copied = nil
	if !shaken || s.phase.Load() == phaseClosed {
		return false
	}
	b.mem.Detach()
	s.startClocksLocked()
	s.seat.stalled = s.srv.clock()
	mask := s.maskLocked()
	if err := s.seat.loop.list.Add(int(s.fd), mask, s.seat.handle); err != nil {
		s.failLocked(ByError, err)
		return false
	}
	s.seat.mask, s.seat.watched = mask, true
	return true
}

// readOnce is that of the session: it reads what is there, up to a buffer full, and handles it.
func (b *bareTLS) readOnce() (goOn bool) {
	s := b.session()
	wire := s.srv.pools.Shared.Get()
	n, errno := buffer.Receive(uintptr(s.fd), wire.B)
	switch {
	case errno == syscall.EAGAIN: // in the first turn there may be bytes that came with the handshake
		s.seat.dry = true
	case errno != 0:
		wire.Release()
		s.ended(os.NewSyscallError("read", errno))
		return false
	case n == 0:
		b.mem.End()
	default:
		b.mem.Feed(wire.B[:n])
		if s.o.IdleTimeout > 0 {
			s.lastRead.Store(s.srv.clock())
		}
	}
	return b.handle(wire)
}

// handle decrypts and handles what TLS was fed, which lies in wire, if that is not nil.
func (b *bareTLS) handle(wire *buffer.Buffer) (goOn bool) {
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
		if wire != nil && b.mem.Fed() == 0 { // before the handler is called, which may block
			wire.Release()
			wire = nil
		}
		b.answer()
		if n > 0 && !s.receive(n) {
			return false
		}
		if s.leaves() || s.paused { // TLS says again what it has said
			b.left, wire = wire, nil
			return true
		}
		switch {
		case err == nil:
		case errors.Is(err, tlsconn.ErrMore):
			return true
		default:
			s.ended(err)
			return false
		}
	}
}

// decrypt reads until there is nothing more, which is an error, or in is full.
func (b *bareTLS) decrypt(in *buffer.Inbound) (n int, err error) {
	for {
		space := in.Space()
		if len(space) == 0 {
			if n == 0 {
				err = ErrTooLarge // the codec has said so before
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

// answer sends what TLS has written of its own accord, if nobody has the pen. Who has it does, or the loop.
func (b *bareTLS) answer() {
	if !b.holding() {
		return
	}
	s := b.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.mem.Err(); err != nil {
		s.failLocked(ByError, fmt.Errorf("session: %w", err))
	}
	if s.pen != penFree || s.phase.Load() == phaseClosed {
		return
	}
	if g := s.gathered; g != nil && len(g.Scratch) > 0 {
		s.pourLocked() // which is ours to write as well
		return
	}
	w := s.srv.pools.Batch()
	_, room, _ := s.offerLocked(w)
	s.srv.pools.PutBatch(w)
	s.settleLocked(room)
}

func (b *bareTLS) offer(w *buffer.Batch) (n int, err error) {
	w.Sent = 0
	if !b.mem.Detached() {
		return 0, nil
	}
	for {
		sent, err := b.flush()
		w.Sent += sent
		if !b.holding() {
			b.plain = 0 // what TLS adds of its own accord was nobody's
		}
		if err != nil || b.holding() || n == w.Size {
			return n, err
		}
		taken, err := b.encrypt(w, n)
		if err != nil {
			return n, err
		}
		n += taken
	}
}

func (b *bareTLS) offerLarge(l *buffer.Large) (int, error) {
	return b.session().offerCopied(l, b.offer)
}

// flush sends what waits, as far as there is room, and returns how much that was.
func (b *bareTLS) flush() (int, error) {
	s := b.session()
	return b.mem.Flush(func(p []byte) (int, error) { return s.offerOne(p) })
}

// encrypt encrypts one record of w, from byte number at on, and returns how many bytes that was.
func (b *bareTLS) encrypt(w *buffer.Batch, at int) (int, error) {
	i := 0
	for at >= len(w.Parts[i]) {
		at -= len(w.Parts[i])
		i++
	}
	p := w.Parts[i][at:]
	if len(p) < tlsconn.MaxPlain && i+1 < len(w.Parts) { // small pieces make one record
		joined := b.session().srv.pools.Chunk.Get()
		defer joined.Release()
		n := copy(joined.B, p)
		for _, part := range w.Parts[i+1:] {
			n += copy(joined.B[n:], part)
		}
		p = joined.B[:n]
	}
	p = p[:min(len(p), tlsconn.MaxPlain)]
	if err := b.mem.Write(p); err != nil {
		return 0, err
	}
	b.plain = len(p)
	return len(p), nil
}

// closeWrite may leave something pending: then it is to be called again when that has been sent.
func (b *bareTLS) closeWrite() bool {
	if !b.mem.Detached() || b.mem.CloseWrite() != nil {
		return false
	}
	if _, err := b.flush(); err != nil {
		return false
	}
	return b.holding() || b.bare.closeWrite()
}

// abortLocked takes leave, if the peer would understand it: not in the middle of a record. Nothing of that blocks.
func (b *bareTLS) abortLocked() {
	if b.fd >= 0 && b.mem.Detached() && !b.holding() && b.mem.CloseWrite() == nil {
		_, _ = b.flush()
	}
	b.bare.abortLocked()
}

// undelivered returns how many bytes were taken and not sent, when all is over, and forgets them. Of a record that was sent in
// part it is not more than what was left of it.
func (b *bareTLS) undelivered() int {
	n := min(b.mem.Pending(), b.plain)
	b.mem.Release()
	if b.left != nil {
		b.mem.Feed(nil)
		b.left.Release()
		b.left = nil
	}
	s := b.session()
	s.srv.shard(s).bytesOut.Add(-uint64(n)) // the socket has not taken them
	return n
}
