package buffer

import (
	"encoding/binary"
	"slices"
	"syscall"
)

// Reports keeps what is sent over a socket without being copied (MSG_ZEROCOPY), until the kernel has reported that it is done with it. The kernel
// numbers the calls of each socket. The zero value has nothing. It belongs to one goroutine at a time.
type Reports struct {
	Off bool // sending so is not worth it, or not possible

	next    uint32   // the number of the next call
	waiting []*Large // in the order of their calls
	acked   uint64   // bytes that the peer had acknowledged at the last look
	moved   int64    // when that had grown, or when the memory of another frame began to be waited for
}

// Expect has l sent without being copied. It is kept until all of it was sent and reported.
func (r *Reports) Expect(l *Large) {
	l.Zero, l.Registered, l.first = true, true, r.next
	r.waiting = append(r.waiting, l)
}

// Sent is called when all of l has been sent, and reports whether the kernel is done with it. If not, the peer has time from now on.
func (r *Reports) Sent(l *Large, fd uintptr, now int64) (done bool) {
	r.next = l.first + l.sent
	if l.acked != l.sent {
		r.moved, r.acked = now, acknowledged(fd)
		return false
	}
	r.forget(l)
	return true
}

// Calls returns how many calls have sent without copying, for tests.
func (r *Reports) Calls() uint32 { return r.next }

// Any reports whether the kernel may still refer to memory of somebody's.
func (r *Reports) Any() bool { return len(r.waiting) > 0 }

// Progress returns when the peer was last seen to have acknowledged more.
func (r *Reports) Progress() (last int64) { return r.moved }

// Progressed looks whether it has since the last look, and notes that.
func (r *Reports) Progressed(fd uintptr, now int64) bool {
	n := acknowledged(fd)
	if n == r.acked {
		return false
	}
	r.acked, r.moved = n, now
	return true
}

// Read reads what the kernel has reported, finishes what it is done with, and tells whether there was something. If the kernel has copied after
// all, sending so is off, unless it is to be kept up.
func (r *Reports) Read(fd int, keep bool) (some bool) {
	for next, ok := nextReport(fd); ok; next, ok = nextReport(fd) {
		some = true
		r.Off = r.Off || next.copied && !keep
		next.count(r.waiting)
	}
	for _, l := range slices.Clone(r.waiting) {
		if !l.Lent && l.Left() == 0 && l.acked == l.sent {
			r.forget(l)
			l.Finish(nil)
		}
	}
	return some
}

// Drop finishes all that waits with an error: there will be no more reports. What is being written is left to who writes it.
func (r *Reports) Drop(err error) {
	for _, l := range r.waiting {
		if !l.Lent {
			l.Finish(err)
		}
	}
	r.waiting = nil
}

func (r *Reports) forget(l *Large) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *Large) bool { return other == l })
}

// Linux, Documentation/networking/msg_zerocopy.rst.
const (
	originZeroCopy   = 5  // SO_EE_ORIGIN_ZEROCOPY
	codeCopied       = 1  // SO_EE_CODE_ZEROCOPY_COPIED
	recvErrV4        = 11 // IP_RECVERR
	recvErrV6        = 25 // IPV6_RECVERR
	extendedErrBytes = 16 // struct sock_extended_err
)

// report is what the kernel reports of sends without copying: those with the numbers from first to last are done with.
type report struct {
	first, last uint32
	copied      bool // it has copied them after all
}

// count counts what was reported for those whose calls they are, of several in the order of their calls. Numbers begin again after the
// largest.
func (r report) count(waiting []*Large) {
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

// nextReport reads one report from the error queue of a socket. Without any, ok is false.
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

// parseReport finds a report among control messages.
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
		// errno of 4 bytes, origin, type, code, padding, info and data of 4 bytes each, in the order of the machine.
		e := m.Data
		if e[4] != originZeroCopy || binary.NativeEndian.Uint32(e[0:]) != 0 {
			continue
		}
		return report{first: binary.NativeEndian.Uint32(e[8:]), last: binary.NativeEndian.Uint32(e[12:]), copied: e[6]&codeCopied != 0}, true
	}
	return report{}, false
}
