package buffer

import (
	"os"
	"syscall"
	"unsafe"
)

// A batch writes itself to descriptors with raw system calls: they do not block, so the scheduler need not be told, which is what
// package syscall spends on each call. writev, which package syscall does not have, writes frames from where they lie.

// Receive reads from a socket that does not block into p, which is not empty.
func Receive(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(sysReceive, fd, p) }

// Send writes p, which is not empty, to a socket that does not block.
func Send(fd uintptr, p []byte) (int, syscall.Errno) { return transfer(sysSend, fd, p) }

func transfer(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// Result is what Send returned, as an error if it was one. EAGAIN is none: nothing was taken.
func Result(n int, errno syscall.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case syscall.EAGAIN:
		return 0, nil
	}
	return 0, os.NewSyscallError("write", errno)
}

// call is what a batch needs for system calls: the vector, the result, and callbacks, made once for each pooled batch.
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

// WriteTo makes one write of all of b to a socket that does not block, and returns how many bytes it took: none is no error.
func (b *Batch) WriteTo(fd uintptr) (int, error) {
	b.write(fd)
	return b.result()
}

// OfferTo is WriteTo for a descriptor that only rc may lend.
func (b *Batch) OfferTo(rc syscall.RawConn) (int, error) {
	b.Sent, b.call.errno = 0, 0
	if err := rc.Control(b.call.offer); err != nil {
		return 0, err
	}
	return b.result()
}

// PushTo writes b, waiting until the socket has taken some of it, or, when b is empty, until it has room, or rc's deadline has passed.
func (b *Batch) PushTo(rc syscall.RawConn) (int, error) {
	b.Sent, b.call.errno = 0, 0
	if err := rc.Write(b.call.push); err != nil {
		return 0, err
	}
	return b.result()
}

// result returns what the last write did. EAGAIN is no error: nothing was taken.
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

// writable asks the kernel whether the socket has room or has failed. The edge that said so may have been consumed: asking is the
// only way to know without a byte to write.
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
