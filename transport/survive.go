package transport

import (
	"errors"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/reserve"
)

// The pause after an error that passes, when nothing better can be done.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// survive decides what an error of accepting means. It returns nil when accepting may go on, after whatever wait that needs, and the
// pause that it took, which is the next one's measure.
func (l *Listener) survive(err error, pause time.Duration) (time.Duration, error) {
	switch {
	case l.isClosed():
		return 0, l.failed(err)
	case l.lost(err):
		return 0, nil
	case isAny(err, syscall.EMFILE, syscall.ENFILE):
		l.exhausted.Add(1)
		if l.shedOne() {
			l.warn("transport: no descriptor left, who connects is closed", err)
			return 0, nil
		}
	case isAny(err, syscall.ENOBUFS, syscall.ENOMEM):
		l.exhausted.Add(1)
	default:
		return 0, l.failed(err)
	}
	l.pauses.Add(1)
	l.warn("transport: accepting failed, will try again", err)
	pause = min(max(2*pause, minPause), maxPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return pause, nil
	case <-l.closed:
		return 0, l.failed(err)
	}
}

// lost reports whether an error of accepting is one of the new connection, which accept(2) wants to be treated like its absence, and counts it.
func (l *Listener) lost(err error) bool {
	is := isAny(err, syscall.ECONNABORTED, syscall.EPROTO, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
		syscall.ENOPROTOOPT)
	if is {
		l.aborted.Add(1)
	}
	return is
}

// isAny reports whether err is one of the system's errors.
func isAny(err error, errnos ...syscall.Errno) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	for _, e := range errnos {
		if errno == e {
			return true
		}
	}
	return false
}

// warn logs, but not every time.
func (l *Listener) warn(msg string, err error) {
	if l.warned.Due(time.Now()) {
		l.o.Logger.Warn(msg, "error", err, "address", l.Addr().String(), "shed", l.shed.Load(), "pauses", l.pauses.Load())
	}
}

// shedOne waits for a connection and sees to it that its peer is not left hanging though there is no descriptor for it: the reserve is
// given up for it, it is closed, the reserve is taken back. It reports false when that did not work.
//
// Linux takes the descriptor before it looks for a connection, so accepting may have failed when there was none. Then this waits for
// one in the poller, and leaves it to the next attempt: there may be descriptors by then.
func (l *Listener) shedOne() (ok bool) {
	if l.socket == nil || !reserve.Possible {
		return false
	}
	waited := false
	if err := l.wait(func(fd uintptr) bool {
		if waited {
			ok = true
			return true
		}
		waited = true
		switch err := l.reserve.Spend(int(fd)); {
		case err == nil:
			l.shed.Add(1)
			ok = true
			return true
		case isAny(err, syscall.EAGAIN):
			return false
		default:
			ok = isAny(err, syscall.ECONNABORTED)
			return true
		}
	}); err != nil {
		return true // closed, which the next attempt sees
	}
	return ok
}
