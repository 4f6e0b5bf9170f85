package session

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/hangup"
	"github.com/sluice-push/sluice/internal/late"
)

// This file reads and writes descriptors with raw system calls (package internal/buffer): they do not block, so the scheduler need not
// be told, which is what package syscall spends on each call. Measured on two cores of an AMD EPYC, Linux 6.18: a TryWrite to each of 1,000 sessions in turn
// takes 3.1 µs instead of 3.7, an echo over a Unix socket 7.5 instead of 7.9; at moderate load, where threads that were told of a call
// have to be woken again, a server saves a third of its processor time. The plain stream is the portable twin; one test suite runs over both.
//
// A raw stream's descriptor is only used inside callbacks of syscall.RawConn, which keep it open. Reading waits inside RawConn.Read with no
// buffer borrowed: its callback borrows one, reads, and on EAGAIN gives it back and returns false, which parks the goroutine in
// the runtime's poller. The poller is edge triggered, so waiting is right after EAGAIN; after a short read, which proves nothing when the
// peer's last bytes and its end arrive together, only where that end is told by somebody else: package internal/hangup, which also says of
// which sockets, and what becomes of urgent bytes.

// raw is the stream for plain TCP and Unix stream sockets. It is part of its session's own.
type raw struct {
	s     *Session              // set when made, as is ready
	ready func(fd uintptr) bool // onReadable
	peer  hangup.Peer           // its descriptor is valid while the goroutine in each has the turn, or waits for who has it
	err   error                 // owned by the goroutine in each
}

// newRaw returns nil when the session's connection is not a plain socket.
func newRaw(s *Session) stream {
	c := &s.own.raw
	var err error
	switch conn := s.own.conn.(type) {
	case *net.TCPConn:
		c.peer.Conn, err = conn.SyscallConn()
	case *late.Conn:
		c.peer.Conn, err = conn.SyscallConn()
	case *net.UnixConn:
		if conn.LocalAddr().Network() != "unix" {
			return nil
		}
		c.peer.Conn, err = conn.SyscallConn()
		c.peer.Exclude() // descriptors may come along
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	c.s, c.ready = s, c.onReadable
	return c
}

// watchedFrom is how many sessions a server has when their peers' ends are watched: that takes three descriptors.
const watchedFrom = 4

func (c *raw) each(s *Session) error {
	switch {
	case !c.peer.Due():
	case s.srv.Len() < watchedFrom:
		c.peer.Later()
	default:
		s.srv.loops.peers.Begin(&c.peer)
	}
	c.err, s.own.short = nil, false
	if err := c.peer.Conn.Read(c.ready); err != nil {
		return err
	}
	return c.err
}

// onReadable reads, and hands on what it has read, until there is nothing more, and reports whether each is done. So the goroutine
// stays inside one call of RawConn.Read, and what that costs is not paid for each message.
func (c *raw) onReadable(fd uintptr) bool {
	c.peer.FD = int32(fd) //nolint:gosec // descriptors are small
	for s := c.s; ; {
		n, errno := buffer.Receive(fd, s.in.Space())
		switch {
		case errno == syscall.EAGAIN:
			s.in.Rest()
			if s.own.short && c.peer.Hollow() {
				s.own.streak = yieldAfter // each is to be called again, and begins the watch while little is on the stack
				return true
			}
			s.own.short = false
			return false
		case errno != 0:
			c.err = os.NewSyscallError("read", errno)
			return true
		case n == 0:
			c.err = io.EOF
			return true
		}
		s.own.short = n < s.in.Room()
		s.in.Arrived(n)
		if !s.got(n) {
			return true
		}
		if s.own.short && c.peer.Told() {
			s.in.Rest()
			return false
		}
	}
}

func (c *raw) direct() bool { return true }

func (c *raw) offer(b *buffer.Batch) (int, error) {
	if b.Inside {
		return b.WriteTo(uintptr(c.peer.FD))
	}
	return b.OfferTo(c.peer.Conn)
}

func (c *raw) push(b *buffer.Batch) (int, error) {
	return b.PushTo(c.peer.Conn)
}

func (c *raw) offerLarge(s *Session, l *buffer.Large) (n int, err error) {
	if failed := c.peer.Conn.Control(func(fd uintptr) { n, err = l.WriteTo(fd, &s.srv.pools.Read) }); failed != nil {
		return 0, failed
	}
	return n, err
}

func (c *raw) pushLarge(s *Session, l *buffer.Large) (n int, err error) {
	failed := c.peer.Conn.Write(func(fd uintptr) bool {
		n, err = l.WriteTo(fd, &s.srv.pools.Read)
		return n > 0 || err != nil
	})
	if failed != nil {
		return 0, failed
	}
	return n, err
}

func (c *raw) closeWrite() bool { return halfClose(c.s.own.conn) }

func (c *raw) close() {
	c.s.srv.loops.peers.Forget(&c.peer)
	_ = c.s.own.conn.Close()
}

// abort shuts the socket down, which wakes whoever waits for it. The descriptor stays the reading goroutine's, which closes it.
func (c *raw) abort() func() {
	if c.s.reset {
		return nil
	}
	_ = c.peer.Conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	return nil
}
