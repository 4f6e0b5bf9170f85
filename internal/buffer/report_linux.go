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
	acked   uint64   // how many bytes the peer had acknowledged when that was looked at last,
	moved   int64    // and when it had become more, or the memory of another frame was waited for
}

// Expect has l sent without being copied. It is kept until all of it was sent and reported.
func (r *Reports) Expect(l *Large) {
	l.Zero, l.Registered, l.First = true, true, r.next
	r.waiting = append(r.waiting, l)
}

// Sent is called when all of l has been sent, and reports whether the kernel is done with it. If not, the peer has time from now on.
func (r *Reports) Sent(l *Large, fd uintptr, now int64) (done bool) {
	r.next = l.First + l.Sent
	if l.Acked != l.Sent {
		r.moved, r.acked = now, Acknowledged(fd)
		return false
	}
	r.forget(l)
	return true
}

// Calls returns how many calls have sent without copying.
func (r *Reports) Calls() uint32 { return r.next }

// Any reports whether the kernel may still refer to memory of somebody's.
func (r *Reports) Any() bool { return len(r.waiting) > 0 }

// Moved returns when the peer was last seen to have acknowledged more.
func (r *Reports) Moved() int64 { return r.moved }

// Moves reports whether it has since then.
func (r *Reports) Moves(fd uintptr, now int64) bool {
	n := Acknowledged(fd)
	if n == r.acked {
		return false
	}
	r.acked, r.moved = n, now
	return true
}

// Read reads what the kernel has reported, finishes what it is done with, and tells whether there was something. If the kernel has copied after
// all, sending so is off, unless it is to be kept up.
func (r *Reports) Read(fd int, keep bool) (some bool) {
	for next, ok := NextReport(fd); ok; next, ok = NextReport(fd) {
		some = true
		r.Off = r.Off || next.Copied && !keep
		next.Count(r.waiting)
	}
	for _, l := range slices.Clone(r.waiting) {
		if !l.Lent && l.Left() == 0 && l.Acked == l.Sent {
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
	originZeroCopy   = 5 // SO_EE_ORIGIN_ZEROCOPY
	codeCopied       = 1 // SO_EE_CODE_ZEROCOPY_COPIED
	recvErrV4        = 11
	recvErrV6        = 25
	extendedErrBytes = 16 // struct sock_extended_err
)

// Report is what the kernel reports of sends without copying: those with the numbers from First to Last are done with.
type Report struct {
	First, Last uint32
	Copied      bool // it has copied them after all
}

// Count counts what was reported for those whose calls they are, of several in the order of their calls. Numbers begin again after the
// largest.
func (r Report) Count(waiting []*Large) {
	for number := r.First; ; number++ {
		for i := len(waiting) - 1; i >= 0; i-- {
			if l := waiting[i]; int32(number-l.First) >= 0 {
				l.Acked++
				break
			}
		}
		if number == r.Last {
			return
		}
	}
}

// NextReport reads one report from the error queue of a socket. Without any, ok is false.
func NextReport(fd int) (r Report, ok bool) {
	var control [128]byte
	for {
		_, n, _, _, err := syscall.Recvmsg(fd, nil, control[:], syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // an errno
			continue
		case err != nil:
			return Report{}, false
		}
		if r, ok := parseReport(control[:n]); ok {
			return r, true
		}
	}
}

// parseReport finds a report among control messages.
func parseReport(control []byte) (r Report, ok bool) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return Report{}, false
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
		return Report{First: binary.NativeEndian.Uint32(e[8:]), Last: binary.NativeEndian.Uint32(e[12:]), Copied: e[6]&codeCopied != 0}, true
	}
	return Report{}, false
}
