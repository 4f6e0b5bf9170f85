package goroutineconn

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/sluice-push/sluice/internal/buffer"
)

// A raw stream reads and writes its descriptor with raw system calls (package internal/buffer). They do not block, so the scheduler need not be told,
// which package syscall does at each call. The descriptor is only used inside callbacks of syscall.RawConn, which keep it open. Reading
// waits inside RawConn.Read without a buffer: the callback borrows one, reads, and on EAGAIN gives it back and returns false, which
// parks the goroutine in the runtime's poller. The poller is edge triggered, so the goroutine may wait only after EAGAIN. A short read
// proves nothing, because the peer's last bytes and its end may have arrived together.

// rawStream is the stream for plain TCP and Unix stream sockets.
type rawStream Conn

// rawState is the part of a Conn that only a rawStream uses.
type rawState struct {
	conn  syscall.RawConn       // set when made, as is ready
	fd    int32                 // of conn; valid while the goroutine in Each dispatches the member, or waits for a goroutine that does
	ended bool                  // owned by the goroutine in Each: the peer has ended the stream
	ready func(fd uintptr) bool // onReadable
	errno syscall.Errno         // owned by the goroutine in Each: why reading has failed; 0 if it has not
}

// newRawStream returns nil if the connection is not a plain socket.
func newRawStream(of *Conn) Stream {
	c := (*rawStream)(of)
	var raw syscall.RawConn
	var err error
	switch conn := c.conn.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		if conn.LocalAddr().Network() != "unix" {
			return nil
		}
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	c.raw.conn, c.raw.ready = raw, c.onReadable
	return c
}

func (c *rawStream) Each() error {
	if err := c.raw.conn.Read(c.raw.ready); err != nil {
		return err
	}
	switch {
	case c.raw.ended:
		return io.EOF
	case c.raw.errno != 0:
		return os.NewSyscallError("read", c.raw.errno)
	}
	return nil
}

// onReadable reads and hands on until there is nothing more, and reports whether Each is done. The goroutine stays inside one call of RawConn.Read, so
// the cost of that call is not paid for each message.
func (c *rawStream) onReadable(fd uintptr) bool {
	c.raw.fd = int32(fd) //nolint:gosec // descriptors are small
	for in := c.m.Input(); ; {
		n, errno := buffer.Receive(fd, in.Space())
		switch {
		case errno == syscall.EAGAIN:
			in.Shrink()
			return false
		case errno != 0:
			c.raw.errno = errno
			return true
		case n == 0:
			c.raw.ended = true
			return true
		}
		in.Arrived(n)
		if !(*Conn)(c).readsOn(c.m.Received(n)) {
			return true
		}
	}
}

// Socket returns the descriptor, for the goroutine that reads from it and handlers that it waits for, or -1 if the connection has none to write to.
func (c *Conn) Socket() int32 {
	if c.raw.conn == nil {
		return -1
	}
	return c.raw.fd
}

func (c *rawStream) Direct() bool { return true }

func (c *rawStream) TryWrite(b *buffer.Batch) (int, error) {
	if b.ByReader {
		return b.WriteTo(uintptr(c.raw.fd))
	}
	return b.TryWriteTo(c.raw.conn)
}

func (c *rawStream) BlockingWrite(b *buffer.Batch) (int, error) { return b.BlockingWriteTo(c.raw.conn) }

func (c *rawStream) TryWriteBig(l *buffer.BigFrame) (n int, err error) {
	if failed := c.raw.conn.Control(func(fd uintptr) { n, err = l.WriteTo(fd, &c.cfg.Pools.Read) }); failed != nil {
		return 0, failed
	}
	return n, err
}

func (c *rawStream) BlockingWriteBig(l *buffer.BigFrame) (n int, err error) {
	failed := c.raw.conn.Write(func(fd uintptr) bool {
		n, err = l.WriteTo(fd, &c.cfg.Pools.Read)
		return n > 0 || err != nil
	})
	if failed != nil {
		return 0, failed
	}
	return n, err
}

func (c *rawStream) CloseWrite() bool { return closeWrite(c.conn) }

func (c *rawStream) Close() { _ = c.conn.Close() }

// Abort shuts the socket down, which wakes the goroutines that wait for it. The reading goroutine closes the descriptor.
func (c *rawStream) Abort(reset bool) (rest func()) {
	if !reset {
		_ = c.raw.conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	return nil
}
