package buffer

import (
	"os"
	"syscall"
	"unsafe"
)

// These functions use raw system calls. The calls do not block, so they need not tell the scheduler, which package syscall does in each call. A
// batch uses writev, which package syscall does not have, so that frames are written without being copied.

// Receive reads from a socket that does not block into p, which must not be empty.
func Receive(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(sysReceive, fd, p) }

// Send writes p, which must not be empty, to a socket that does not block.
func Send(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(sysSend, fd, p) }

func transfer(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// Result converts what Send returned to a byte count and an error. EAGAIN is no error: the socket took nothing.
func Result(n int, errno syscall.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case syscall.EAGAIN:
		return 0, nil
	}
	return 0, os.NewSyscallError("write", errno)
}

// call is the memory that a batch needs for system calls: the I/O vector, the result, and callbacks that are made once for each pooled batch.
type call struct {
	offer func(fd uintptr)
	push  func(fd uintptr) bool
	errno syscall.Errno
	iov   [batchParts]syscall.Iovec
}

// bind makes the callbacks.
func (c *call) bind(b *Batch) {
	c.offer = b.write
	c.push = func(fd uintptr) bool {
		if b.Size == 0 {
			return writable(fd)
		}
		b.write(fd)
		return c.errno != syscall.EAGAIN
	}
}

// WriteTo writes b once to a socket that does not block, and returns how many bytes the socket took. If it took none, that is no error.
func (b *Batch) WriteTo(fd uintptr) (int, error) {
	b.write(fd)
	return b.result()
}

// TryWriteTo is WriteTo for a socket whose descriptor is accessible only through rc.
func (b *Batch) TryWriteTo(rc syscall.RawConn) (int, error) {
	b.Sent, b.call.errno = 0, 0
	if err := rc.Control(b.call.offer); err != nil {
		return 0, err
	}
	return b.result()
}

// BlockingWriteTo writes b, and waits until the socket has taken some of it or rc's write deadline has passed. If b is empty, it waits until the
// socket has room.
func (b *Batch) BlockingWriteTo(rc syscall.RawConn) (int, error) {
	b.Sent, b.call.errno = 0, 0
	if err := rc.Write(b.call.push); err != nil {
		return 0, err
	}
	return b.result()
}

// result returns the result of the last write. EAGAIN is no error: the socket took nothing.
func (b *Batch) result() (int, error) {
	if b.call.errno != 0 && b.call.errno != syscall.EAGAIN {
		return 0, os.NewSyscallError("write", b.call.errno)
	}
	return b.Sent, nil
}

func (b *Batch) write(fd uintptr) {
	c := &b.call
	if len(b.Parts) == 1 {
		b.Sent, c.errno = Send(fd, b.Parts[0])
	} else {
		for i, p := range b.Parts {
			c.iov[i].Base = unsafe.SliceData(p)
			c.iov[i].SetLen(len(p))
		}
		for {
			n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&c.iov)), uintptr(len(b.Parts)))
			b.Sent, c.errno = int(n), errno
			if errno != syscall.EINTR {
				break
			}
		}
		clear(c.iov[:len(b.Parts)])
	}
	if c.errno != 0 {
		b.Sent = 0
	}
}

// writable asks the kernel whether the socket has room or has failed. The poller's edge-triggered event may have been consumed already, and
// without a byte to write there is no other way to know.
func writable(fd uintptr) bool {
	const pollOut = 0x4
	ask := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: pollOut}
	var now syscall.Timespec
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno != 0 || n > 0
}
