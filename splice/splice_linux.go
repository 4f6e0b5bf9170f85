package splice

import (
	"errors"
	"io"
	"net"
	"syscall"
)

const (
	nonblock    = 0x2     // SPLICE_F_NONBLOCK
	setPipeSize = 1031    // F_SETPIPE_SZ
	maxCall     = 1 << 20 // bytes of one system call, so that a fast source does not keep the thread in the kernel
)

// isStream reports whether conn is a plain TCP or Unix stream socket, which can be spliced.
func isStream(conn net.Conn) bool {
	switch c := conn.(type) {
	case *net.TCPConn:
		return c != nil
	case *net.UnixConn:
		return c != nil && c.LocalAddr() != nil && c.LocalAddr().Network() == "unix"
	}
	return false
}

// pipe is a pipe with the state of the transfer that uses it. The two functions are made once for each pipe, so that a transfer allocates none.
type pipe struct {
	r, w int // descriptors

	want    int   // bytes that the next call may move
	moved   int   // bytes that the last call has moved
	err     error // of the last call
	fillFn  func(fd uintptr) bool
	drainFn func(fd uintptr) bool
}

// newPipe opens a pipe.
func newPipe(size int) (*pipe, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, err
	}
	p := &pipe{r: fds[0], w: fds[1]}
	if size > 0 {
		// If the kernel refuses, the pipe keeps the capacity that it has.
		_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.w), setPipeSize, uintptr(size))
	}
	p.fillFn = func(fd uintptr) bool { return p.call(int(fd), p.w) }
	p.drainFn = func(fd uintptr) bool { return p.call(p.r, int(fd)) }
	return p, nil
}

// close closes the pipe, with what is in it.
func (p *pipe) close() {
	_ = syscall.Close(p.r)
	_ = syscall.Close(p.w)
}

// call moves up to want bytes from one descriptor to another. It returns false if the socket among the two is not ready.
func (p *pipe) call(from, to int) bool {
	for {
		n, err := syscall.Splice(from, nil, to, nil, p.want, nonblock)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN): // the socket is not ready: the pipe is empty in fill, and has bytes in drain
			return false
		}
		p.moved, p.err = int(n), err
		return true
	}
}

// fill moves up to n bytes from src into the empty pipe. It waits for the first byte.
func (p *pipe) fill(src syscall.RawConn, n int64) (int, error) {
	p.want, p.moved, p.err = int(min(n, maxCall)), 0, nil
	if err := src.Read(p.fillFn); err != nil {
		return 0, &Error{Source, err}
	}
	switch {
	case p.err == nil && p.moved == 0:
		return 0, &Error{Source, io.ErrUnexpectedEOF}
	case p.err == nil:
		return p.moved, nil
	case errors.Is(p.err, syscall.EINVAL), errors.Is(p.err, syscall.ENOSYS), errors.Is(p.err, syscall.EPERM), errors.Is(p.err, syscall.EOPNOTSUPP):
		return 0, errRefused
	}
	return 0, &Error{Source, p.err}
}

// drain moves the n bytes of the pipe to dst. It returns how many dst has taken.
func (p *pipe) drain(dst syscall.RawConn, n int) (written int, err error) {
	for written < n {
		p.want, p.moved, p.err = n-written, 0, nil
		if err := dst.Write(p.drainFn); err != nil {
			return written, &Error{Destination, err}
		}
		if p.err != nil {
			return written, &Error{Destination, p.err}
		}
		if p.moved == 0 {
			return written, &Error{Destination, io.ErrShortWrite}
		}
		written += p.moved
	}
	return written, nil
}

// splice moves n bytes through a pipe. The error is errRefused if the rest can be copied.
func (p *Pool) splice(dst, src net.Conn, n int64) (written int64, err error) {
	to, err := dst.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, &Error{Destination, err}
	}
	from, err := src.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, &Error{Source, err}
	}
	pipe := p.take()
	if pipe == nil {
		if pipe, err = newPipe(p.pipeSize); err != nil {
			return 0, errRefused // there is no descriptor
		}
	}
	for written < n {
		filled, err := pipe.fill(from, n-written)
		if err != nil {
			p.give(pipe) // it is empty
			return written, err
		}
		took, err := pipe.drain(to, filled)
		written += int64(took)
		if err != nil {
			pipe.close()
			return written, err
		}
	}
	p.give(pipe)
	return written, nil
}
