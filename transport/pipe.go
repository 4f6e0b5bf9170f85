package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// The two ends of a connection in memory share two streams, one for each direction. A stream is a ring of bytes under a lock. All waiting
// goroutines wait for one condition. sync.Cond and timers are what testing/synctest supports, so time passes in its bubble while a goroutine
// waits for a peer. A write that does not fit reserves the stream until it is done, as in a kernel. It does so with a flag instead of the lock.

// defaultPipe is the default size in bytes of a stream.
const defaultPipe = 64 << 10

// MemoryConn is one end of a connection in memory. It is a net.Conn that behaves like TCP on a very fast network. Write returns as soon as the
// bytes are in the buffer, the peer reads all bytes that were written before a Close, and a deadline in the past fails at once. All methods may
// be called by any goroutine at any time. It works inside bubbles of testing/synctest.
type MemoryConn struct {
	in, out       *stream
	local, remote memoryAddr
}

// Pipe returns the two ends of a connection in memory that buffers up to size bytes in each direction. Zero or less means 64 KiB. Unlike with
// net.Pipe, a write does not wait for a reader.
func Pipe(size int) (a, b *MemoryConn) { return pipe(size, "pipe", "pipe") }

func pipe(size int, client, server memoryAddr) (a, b *MemoryConn) {
	if size <= 0 {
		size = defaultPipe
	}
	x, y := newStream(size), newStream(size)
	return &MemoryConn{in: x, out: y, local: client, remote: server}, &MemoryConn{in: y, out: x, local: server, remote: client}
}

// Read waits for bytes and reads some of them. The error is io.EOF after the peer's CloseWrite or Close. Otherwise it is a *net.OpError: with
// net.ErrClosed after this end's Close, with os.ErrDeadlineExceeded after the deadline.
func (c *MemoryConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.failed("read", err)
}

// Write copies p into the buffer, and waits for room until all of it is there. Errors are *net.OpError: with syscall.EPIPE after the peer's
// Close or this end's CloseWrite, with net.ErrClosed after this end's Close, with os.ErrDeadlineExceeded after the deadline. Some bytes may have
// been written then.
func (c *MemoryConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.failed("write", err)
}

// CloseWrite tells the peer that nothing more follows. This end can still be read from.
func (c *MemoryConn) CloseWrite() error { return c.failed("close", c.out.closeWrite(false)) }

// Close ends both directions, also for waiting calls of Read and Write. The peer still reads the bytes written before. Closing again does
// nothing and returns an error.
func (c *MemoryConn) Close() error {
	err := c.out.closeWrite(true)
	c.in.closeRead()
	return c.failed("close", err)
}

// LocalAddr returns an address of the network "memory".
func (c *MemoryConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns an address of the network "memory".
func (c *MemoryConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *MemoryConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds Read, also a call that waits already. Zero means no bound.
func (c *MemoryConn) SetReadDeadline(t time.Time) error {
	return c.failed("set", c.in.setDeadline(&c.in.reader, t))
}

// SetWriteDeadline bounds Write, also a call that waits already. Zero means no bound.
func (c *MemoryConn) SetWriteDeadline(t time.Time) error {
	return c.failed("set", c.out.setDeadline(&c.out.writer, t))
}

// failed wraps an error as package net does.
func (c *MemoryConn) failed(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // this package's own io.EOF, never wrapped
		return err
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// memoryAddr is the address of an end, or of a listener.
type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// stream carries bytes from a writer to a reader.
type stream struct {
	mu     sync.Mutex
	change sync.Cond
	size   int

	// Guarded by mu.
	ring           []byte // size bytes long, allocated by the first write
	start, n       int    // index and number of the buffered bytes
	writing        bool   // a Write is in progress, and others wait
	ended          bool   // the writer has ended the stream
	reader, writer side
}

// side is the state of one of the two users of a stream.
type side struct {
	closed  bool
	expired bool // the deadline has passed
	timer   *time.Timer
}

func newStream(size int) *stream {
	s := &stream{size: size}
	s.change.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.reader.closed:
			return 0, net.ErrClosed
		case len(p) == 0:
			return 0, nil
		case s.reader.expired:
			return 0, os.ErrDeadlineExceeded
		case s.n > 0:
			return s.takeLocked(p), nil
		case s.ended:
			return 0, io.EOF
		}
		s.change.Wait()
	}
}

// takeLocked moves bytes from the ring to p.
func (s *stream) takeLocked(p []byte) int {
	p = p[:min(len(p), s.n)]
	first := copy(p, s.ring[s.start:])
	copy(p[first:], s.ring)
	s.start = (s.start + len(p)) % s.size
	s.n -= len(p)
	s.change.Broadcast()
	return len(p)
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing && s.whyNotLocked() == nil {
		s.change.Wait()
	}
	if err := s.whyNotLocked(); err != nil {
		return 0, err
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.change.Broadcast()
	}()
	done := 0
	for done < len(p) {
		if err := s.whyNotLocked(); err != nil {
			return done, err
		}
		if s.n == s.size {
			s.change.Wait()
			continue
		}
		done += s.putLocked(p[done:])
	}
	return done, nil
}

// whyNotLocked returns the reason why nothing can be written, or nil.
func (s *stream) whyNotLocked() error {
	switch {
	case s.writer.closed:
		return net.ErrClosed
	case s.writer.expired:
		return os.ErrDeadlineExceeded
	case s.ended, s.reader.closed:
		return syscall.EPIPE
	}
	return nil
}

// putLocked moves as much of p as fits to the ring.
func (s *stream) putLocked(p []byte) int {
	if s.ring == nil {
		s.ring = make([]byte, s.size)
	}
	p = p[:min(len(p), s.size-s.n)]
	end := (s.start + s.n) % s.size
	first := copy(s.ring[end:], p)
	copy(s.ring, p[first:])
	s.n += len(p)
	s.change.Broadcast()
	return len(p)
}

// closeWrite ends the stream. If all is set, the writer is closed too, so that its calls return net.ErrClosed.
func (s *stream) closeWrite(all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer.closed {
		return net.ErrClosed
	}
	s.ended = true
	if all {
		s.writer.close()
	}
	s.change.Broadcast()
	return nil
}

// closeRead closes the reader, and drops the buffered bytes.
func (s *stream) closeRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.close()
	s.ring, s.start, s.n = nil, 0, 0
	s.change.Broadcast()
}

// close closes one side. The stream's lock must be held.
func (d *side) close() {
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (s *stream) setDeadline(d *side, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	left := time.Until(t)
	d.expired = !t.IsZero() && left <= 0
	if d.expired {
		s.change.Broadcast()
	}
	if t.IsZero() || d.expired {
		return nil
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer { // not replaced meanwhile
			d.expired = true
			s.change.Broadcast()
		}
	})
	d.timer = timer
	return nil
}
