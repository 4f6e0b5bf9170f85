package late

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/buffer"
	"github.com/sluice-push/sluice/internal/socket"
)

// aboveStandard is the least descriptor that is not of standard input or output.
const aboveStandard = 3

// Conn is a TCP connection. As those of package net it may be used by several goroutines at once.
type Conn struct {
	remote, local net.Addr // set when made

	writing sync.Mutex // held during Write, before mu
	mu      sync.Mutex
	// Guarded by mu.
	fd            int      // −1 when it is over
	file          *os.File // nil until somebody had to wait; then the descriptor is in its care
	reads, writes time.Time
}

// New makes a connection of a descriptor that does not block and is in nobody's poller. It owns it.
func New(fd int, remote, local net.Addr) *Conn { return &Conn{fd: fd, remote: remote, local: local} }

// LocalAddr returns the address on this side.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read reads what is there, and waits if there is nothing.
func (c *Conn) Read(p []byte) (n int, err error) {
	f, err := c.attempt(&c.reads, func(fd uintptr) (bool, error) {
		if len(p) == 0 {
			return true, nil
		}
		var errno syscall.Errno
		switch n, errno = buffer.Receive(fd, p); {
		case errno == syscall.EAGAIN:
			n = 0
			return false, nil
		case errno != 0:
			n = 0
			return true, os.NewSyscallError("read", errno)
		case n == 0:
			return true, io.EOF
		}
		return true, nil
	})
	if f != nil && err == nil {
		n, err = f.Read(p)
	}
	return n, c.failed("read", err)
}

// Write writes all of p, and waits for room.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	f, err := c.attempt(&c.writes, func(fd uintptr) (bool, error) {
		if len(p) == 0 {
			return true, nil
		}
		var errno syscall.Errno
		switch n, errno = buffer.Send(fd, p); {
		case errno == syscall.EAGAIN:
			n = 0
		case errno != 0:
			n = 0
			return true, os.NewSyscallError("write", errno)
		}
		return n == len(p), nil
	})
	if f != nil && err == nil {
		var more int
		more, err = f.Write(p[n:])
		n += more
	}
	return n, c.failed("write", err)
}

// attempt calls do, which reports whether that was all, unless the connection is in the poller already. Where there is something to wait for
// it joins. The file is who waits, and is nil when there is nothing more to be done.
func (c *Conn) attempt(until *time.Time, do func(fd uintptr) (bool, error)) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fd < 0:
		return nil, net.ErrClosed
	case c.file != nil:
		return c.file, nil
	case !until.IsZero() && !time.Now().Before(*until):
		return nil, os.ErrDeadlineExceeded
	}
	if done, err := do(uintptr(c.fd)); done {
		return nil, err
	}
	return c.joinLocked()
}

// joinLocked puts the descriptor into the poller, and returns it as a file.
func (c *Conn) joinLocked() (*os.File, error) {
	if c.file != nil {
		return c.file, nil
	}
	if c.fd < aboveStandard { // with which a file would be standard output, where EPIPE ends the program
		dup, err := socket.Duplicate(uintptr(c.fd), aboveStandard)
		if err != nil {
			return nil, err
		}
		_ = syscall.Close(c.fd)
		c.fd = dup
	}
	c.file = os.NewFile(uintptr(c.fd), "socket")
	var err error
	if !c.reads.IsZero() {
		err = c.file.SetReadDeadline(c.reads)
	}
	if err == nil && !c.writes.IsZero() {
		err = c.file.SetWriteDeadline(c.writes)
	}
	return c.file, err
}

// failed dresses an error as package net does.
func (c *Conn) failed(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // a plain one is what readers are to get
		return err
	}
	if inner, ok := errors.AsType[*os.PathError](err); ok {
		err = inner.Err
	}
	if errors.Is(err, os.ErrClosed) {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close closes the connection. Who waits returns.
func (c *Conn) Close() error {
	fd, f := c.end()
	switch {
	case fd < 0:
		return c.failed("close", net.ErrClosed)
	case f != nil: // which waits for who uses the descriptor, and perhaps for the mutex
		return c.failed("close", f.Close())
	}
	return c.failed("close", os.NewSyscallError("close", syscall.Close(fd)))
}

// end ends the connection, and returns what is left of it: nothing if it was over.
func (c *Conn) end() (fd int, f *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fd, f = c.fd, c.file
	c.fd = -1
	return fd, f
}

// Take returns the descriptor, which is the caller's then: in nobody's poller. The connection is over. Nobody may be reading or writing.
func (c *Conn) Take() (fd int, err error) {
	fd, polled, err := c.twin()
	switch {
	case err != nil:
		return -1, err
	case polled:
		_ = c.Close() // the runtime gives none back
		return fd, nil
	}
	if fd, _ = c.end(); fd < 0 {
		return -1, net.ErrClosed
	}
	return fd, nil
}

// twin returns a duplicate of a descriptor that is in the poller.
func (c *Conn) twin() (fd int, polled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 || c.file == nil {
		return -1, false, nil
	}
	err = c.controlLocked(func(old uintptr) (err error) {
		fd, err = socket.Duplicate(old, aboveStandard)
		return err
	})
	return fd, true, err
}

// controlLocked calls f with the descriptor.
func (c *Conn) controlLocked(f func(fd uintptr) error) error {
	if c.fd < 0 {
		return net.ErrClosed
	}
	if c.file == nil {
		return f(uintptr(c.fd))
	}
	rc, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}

// SetDeadline is both of the others.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

// SetReadDeadline bounds how long Read waits.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

// SetWriteDeadline bounds how long Write waits.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *Conn) setDeadlines(t time.Time, reads, writes bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return c.failed("set", net.ErrClosed)
	}
	if reads {
		c.reads = t
	}
	if writes {
		c.writes = t
	}
	switch {
	case c.file == nil:
		return nil
	case !writes:
		return c.failed("set", c.file.SetReadDeadline(t))
	case !reads:
		return c.failed("set", c.file.SetWriteDeadline(t))
	}
	return c.failed("set", c.file.SetDeadline(t))
}

// SyscallConn gives the descriptor to who waits for it in the poller.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return nil, c.failed("raw", net.ErrClosed)
	}
	f, err := c.joinLocked()
	if err != nil {
		return nil, c.failed("raw", err)
	}
	return f.SyscallConn()
}

// CloseWrite tells the peer that nothing more comes.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed("close", c.controlLocked(func(fd uintptr) error {
		return os.NewSyscallError("shutdown", syscall.Shutdown(int(fd), syscall.SHUT_WR))
	}))
}
