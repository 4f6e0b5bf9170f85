package buffer

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"syscall"
	"unsafe"
)

// largeStep is the most that one call hands to the kernel, so that others get a turn.
const largeStep = 512 << 10

// WriteTo makes one write of what is left to a socket that does not block, and returns how many bytes it took, which are off then: none
// is no error but a lack of room. The error may be the file's: that it is shorter than it was is io.ErrUnexpectedEOF. A file from which
// the kernel cannot send is read into a buffer of pool.
func (l *Large) WriteTo(fd uintptr, pool *Pool) (int, error) {
	n, err := l.writeTo(fd, pool)
	l.Written(n)
	return n, err
}

func (l *Large) writeTo(fd uintptr, pool *Pool) (int, error) {
	switch {
	case len(l.head) > 0:
		return Result(Send(fd, l.head))
	case l.left == 0:
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
	p := l.p[:min(len(l.p), largeStep)]
	if l.Zero {
		n, errno := sendFlags(fd, p, msgZeroCopy)
		if errno == 0 {
			l.sent++
			return n, nil
		}
		if errno != syscall.ENOBUFS { // there is no memory for more reports: see msg_zerocopy of the kernel's documentation
			return Result(n, errno)
		}
	}
	return Result(Send(fd, p))
}

// sendFile has the kernel send from the file. That may wait for a disk, so the scheduler is told.
func (l *Large) sendFile(fd int) (n int, err error) {
	count := int(min(l.left, largeStep, math.MaxInt32))
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

// EnableZeroCopy asks for it. An error means that the socket cannot.
func EnableZeroCopy(fd int) error {
	if sysSend == syscall.SYS_WRITE { // which takes no flags
		return syscall.ENOTSUP
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soZeroCopy, 1))
}

// Disconnect resets a TCP connection, by which the kernel forgets what it had still to send: connecting to an address of the family
// AF_UNSPEC, connect(2).
func Disconnect(fd uintptr) {
	var nowhere syscall.RawSockaddrInet4
	_, _, _ = syscall.RawSyscall(sysConnect, fd, uintptr(unsafe.Pointer(&nowhere)), unsafe.Sizeof(nowhere))
}

// acknowledged returns how many bytes the peer of a TCP connection has acknowledged: tcpi_bytes_acked of TCP_INFO, tcp(7). Where it is not
// to be had it is 0.
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
