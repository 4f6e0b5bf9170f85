package main

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// rawSize is room for the largest frame and as much again.
const rawSize = 2 * maxFrame

// rawBuffers are what a connection borrows while it has something to do.
type rawBuffers struct{ in, out []byte }

// serveRaw is as little as a goroutine for each connection can do: it stays inside one call of RawConn.Read for life, reads what is there
// with one system call, sends all answers to it with another, and waits in the runtime's poller when there is nothing more.
func (s *netServer) serveRaw(c net.Conn) error {
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var part []byte // of a frame that is half here
	err = rc.Read(func(fd uintptr) bool {
		b := s.raws.Get().(*rawBuffers)
		defer s.raws.Put(b)
		for {
			had := copy(b.in, part)
			n, errno := rawCall(syscall.SYS_RECVFROM, fd, b.in[had:])
			if errno == syscall.EAGAIN {
				return false
			}
			if errno != 0 || n == 0 {
				err = errno
				return true
			}
			var used int
			if used, err = s.answerAll(b, had+n); err != nil {
				return true
			}
			part = append(part[:0], b.in[used:had+n]...)
			if len(b.out) == 0 {
				continue
			}
			sent, _ := rawCall(syscall.SYS_SENDTO, fd, b.out)
			if rest := b.out[max(sent, 0):]; len(rest) > 0 {
				if _, err = c.Write(rest); err != nil { // which waits for room
					return true
				}
			}
		}
	})
	if err == nil {
		err = io.EOF
	}
	return err
}

// answerAll puts the answers to all frames in the first n bytes of b.in into b.out, and returns how many bytes those were.
func (s *netServer) answerAll(b *rawBuffers, n int) (used int, err error) {
	var ack [ackSize]byte
	b.out = b.out[:0]
	for n-used >= 4 {
		size, err := s.proto.frameSize(b.in[used:n])
		if err != nil {
			return used, err
		}
		if size > n-used {
			break
		}
		b.out = append(b.out, s.proto.answer(b.in[used:used+size], &ack)...)
		used += size
	}
	return used, nil
}

// rawCall receives into p or sends it, without telling the scheduler.
func rawCall(call, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}
