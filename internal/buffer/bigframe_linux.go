package buffer

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"syscall"
	"unsafe"
)

// bigFrameStep is the most bytes that one call hands to the kernel, so that one big frame does not hold up other connections.
const bigFrameStep = 512 << 10

// WriteTo writes once to a socket that does not block, removes the bytes that the socket took, and returns their number. If the socket has no
// room, it returns 0 and no error. The error may be the file's: io.ErrUnexpectedEOF means that the file has become shorter. If the kernel cannot
// send from the file, the file is read into a buffer of pool.
func (l *BigFrame) WriteTo(fd uintptr, pool *Pool) (int, error) {
	n, err := l.writeTo(fd, pool)
	l.Written(n)
	return n, err
}

func (l *BigFrame) writeTo(fd uintptr, pool *Pool) (int, error) {
	switch {
	case len(l.head) > 0:
		return Result(Send(fd, l.head))
	case l.remaining == 0:
		return 0, nil
	case l.file != nil && l.copied:
		if err := l.read(pool); err != nil {
			return 0, err
		}
		return Result(Send(fd, l.ready))
	case l.file != nil:
		n, err := l.sendFile(int(fd))
		if l.copied {
			return l.writeTo(fd, pool)
		}
		return n, err
	}
	p := l.p[:min(len(l.p), bigFrameStep)]
	if l.ZeroCopy {
		n, errno := sendFlags(fd, p, msgZeroCopy)
		if errno == 0 {
			l.sent++
			return n, nil
		}
		if errno != syscall.ENOBUFS { // the socket may not hold more pages or reports: see the kernel's Documentation/networking/msg_zerocopy.rst
			return Result(n, errno)
		}
	}
	return Result(Send(fd, p))
}

// sendFile lets the kernel send from the file. The call may wait for a disk, so it goes through package syscall, which tells the scheduler.
func (l *BigFrame) sendFile(fd int) (n int, err error) {
	count := int(min(l.remaining, bigFrameStep, math.MaxInt32))
	off := l.off
	failed := l.rc.Control(func(file uintptr) {
		for {
			if n, err = syscall.Sendfile(fd, int(file), &off, count); err != syscall.EINTR { //nolint:errorlint // an errno
				return
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == syscall.EAGAIN: //nolint:errorlint // an errno
		return 0, nil
	case err == syscall.EINVAL, err == syscall.ENOSYS, err == syscall.EOPNOTSUPP: //nolint:errorlint // an errno
		l.copied = true
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("sendfile", err)
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func sendFlags(fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(sysSend, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags|syscall.MSG_NOSIGNAL, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// Sending without copying: Linux, Documentation/networking/msg_zerocopy.rst. Package syscall does not have the constants.
const (
	soZeroCopy  = 60 // SO_ZEROCOPY
	msgZeroCopy = 0x4000000
)

// EnableZeroCopy prepares a socket for sending without a copy. An error means that the socket cannot do so.
func EnableZeroCopy(fd int) error {
	if sysSend == syscall.SYS_WRITE { // write(2) takes no flags
		return syscall.ENOTSUP
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soZeroCopy, 1))
}

// Disconnect resets a TCP connection, so that the kernel drops the bytes that it has not sent. It connects to an address of the family
// AF_UNSPEC: see connect(2).
func Disconnect(fd uintptr) {
	var nowhere syscall.RawSockaddrInet4
	_, _, _ = syscall.RawSyscall(sysConnect, fd, uintptr(unsafe.Pointer(&nowhere)), unsafe.Sizeof(nowhere))
}

// acknowledged returns how many bytes the peer of a TCP connection has acknowledged: tcpi_bytes_acked of TCP_INFO, tcp(7). If the kernel does
// not tell, it returns 0.
func acknowledged(fd uintptr) uint64 {
	const at = 120 // in struct tcp_info of linux/tcp.h
	var info [at + 8]byte
	size := uint32(len(info))
	_, _, errno := syscall.RawSyscall6(sysGetOption, fd, syscall.SOL_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 || size < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(info[at:])
}
