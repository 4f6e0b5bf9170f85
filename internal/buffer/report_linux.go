package buffer

import (
	"encoding/binary"
	"slices"
	"syscall"
)

// Reports keeps the big frames that a socket sends without a copy (MSG_ZEROCOPY), until the kernel reports that it no longer refers to their
// memory. The kernel numbers the calls of each socket. The zero value has no frames. Reports belongs to one goroutine at a time.
type Reports struct {
	Off bool // sending without a copy is not worth it, or not possible

	next    uint32      // the number of the next call
	waiting []*BigFrame // in the order of their calls
	acked   uint64      // the bytes that the peer had acknowledged at the last check
	moved   int64       // when acked had last grown, or when the wait for another frame's memory began
}

// Track makes l be sent without a copy. Reports keeps l until all of it is sent and reported.
func (r *Reports) Track(l *BigFrame) {
	l.ZeroCopy, l.Registered, l.first = true, true, r.next
	r.waiting = append(r.waiting, l)
}

// Sent is called after all of l was sent, and reports whether the kernel no longer refers to its memory. If the kernel does, the time that
// Progress returns is now.
func (r *Reports) Sent(l *BigFrame, fd uintptr, now int64) (done bool) {
	r.next = l.first + l.sent
	if l.acked != l.sent {
		r.moved, r.acked = now, acknowledged(fd)
		return false
	}
	r.forget(l)
	return true
}

// Calls returns the number of calls that have sent without a copy. It is for tests.
func (r *Reports) Calls() uint32 { return r.next }

// HasPending reports whether the kernel may still refer to the memory of a frame.
func (r *Reports) HasPending() bool { return len(r.waiting) > 0 }

// Progress returns when the peer was last seen to have acknowledged more bytes, or when the wait for another frame's memory began.
func (r *Reports) Progress() (last int64) { return r.moved }

// Progressed reports whether the peer has acknowledged more bytes since the last check, and records that.
func (r *Reports) Progressed(fd uintptr, now int64) bool {
	n := acknowledged(fd)
	if n == r.acked {
		return false
	}
	r.acked, r.moved = n, now
	return true
}

// Read reads the kernel's reports, finishes the frames that are done, and reports whether there was any report. If the kernel has copied after
// all, as on the loopback interface, sending without a copy ends, unless keep is set.
func (r *Reports) Read(fd int, keep bool) (some bool) {
	for next, ok := nextReport(fd); ok; next, ok = nextReport(fd) {
		some = true
		r.Off = r.Off || next.copied && !keep
		next.count(r.waiting)
	}
	for _, l := range slices.Clone(r.waiting) {
		if !l.InFlight && l.Remaining() == 0 && l.acked == l.sent {
			r.forget(l)
			l.Finish(nil)
		}
	}
	return some
}

// Abort finishes all waiting frames with an error, because no more reports will come. It leaves a frame that is being written to its writer.
func (r *Reports) Abort(err error) {
	for _, l := range r.waiting {
		if !l.InFlight {
			l.Finish(err)
		}
	}
	r.waiting = nil
}

func (r *Reports) forget(l *BigFrame) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *BigFrame) bool { return other == l })
}

// Linux, Documentation/networking/msg_zerocopy.rst.
const (
	originZeroCopy   = 5  // SO_EE_ORIGIN_ZEROCOPY
	codeCopied       = 1  // SO_EE_CODE_ZEROCOPY_COPIED
	recvErrV4        = 11 // IP_RECVERR
	recvErrV6        = 25 // IPV6_RECVERR
	extendedErrBytes = 16 // struct sock_extended_err
)

// report is one report of the kernel: the calls from first to last no longer refer to the caller's memory.
type report struct {
	first, last uint32
	copied      bool // the kernel has copied the bytes after all
}

// count adds the reported calls to acked of the frames that made them. waiting is in the order of the calls. The number after the largest is
// zero.
func (r report) count(waiting []*BigFrame) {
	for number := r.first; ; number++ {
		for i := len(waiting) - 1; i >= 0; i-- {
			if l := waiting[i]; int32(number-l.first) >= 0 {
				l.acked++
				break
			}
		}
		if number == r.last {
			return
		}
	}
}

// nextReport reads one report from the error queue of a socket. If there is none, ok is false.
func nextReport(fd int) (r report, ok bool) {
	var control [128]byte
	for {
		_, n, _, _, err := syscall.Recvmsg(fd, nil, control[:], syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // an errno
			continue
		case err != nil:
			return report{}, false
		}
		if r, ok := parseReport(control[:n]); ok {
			return r, true
		}
	}
}

// parseReport returns the report among control messages.
func parseReport(control []byte) (r report, ok bool) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return report{}, false
	}
	for _, m := range messages {
		v4 := m.Header.Level == syscall.SOL_IP && m.Header.Type == recvErrV4
		v6 := m.Header.Level == syscall.SOL_IPV6 && m.Header.Type == recvErrV6
		if !v4 && !v6 || len(m.Data) < extendedErrBytes {
			continue
		}
		// struct sock_extended_err: errno of 4 bytes; origin, type, code and padding of 1 byte each; info and data of 4 bytes each; in native
		// byte order.
		e := m.Data
		if e[4] != originZeroCopy || binary.NativeEndian.Uint32(e[0:]) != 0 {
			continue
		}
		return report{first: binary.NativeEndian.Uint32(e[8:]), last: binary.NativeEndian.Uint32(e[12:]), copied: e[6]&codeCopied != 0}, true
	}
	return report{}, false
}
