package transport

import (
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// The bounds of the pause after an error that passes.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// retryAccept returns nil if accepting may go on after err. It may wait before. It returns its pause, to be passed to the next call, which pauses
// for longer.
func (l *Listener) retryAccept(err error, pause time.Duration) (time.Duration, error) {
	switch {
	case l.isClosed():
		return 0, l.failed(err)
	case l.lost(err):
		return 0, nil
	case sockopt.IsErrno(err, syscall.EMFILE, syscall.ENFILE):
		l.exhausted.Add(1)
		if l.shedOne() {
			l.warn("transport: no file descriptors left, connection dropped", err)
			return 0, nil
		}
	case sockopt.IsErrno(err, syscall.ENOBUFS, syscall.ENOMEM):
		l.exhausted.Add(1)
	default:
		return 0, l.failed(err)
	}
	l.pauses.Add(1)
	l.warn("transport: accept failed, retrying", err)
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

// lost reports whether an error of accepting concerns only the new connection, and counts such an error. accept(2) says to retry after it.
func (l *Listener) lost(err error) bool {
	is := sockopt.IsErrno(err, syscall.ECONNABORTED, syscall.EPROTO, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
		syscall.ENOPROTOOPT)
	if is {
		l.aborted.Add(1)
	}
	return is
}

// warn logs a message at a limited rate.
func (l *Listener) warn(msg string, err error) {
	if l.warned.Due(time.Now()) {
		l.o.Logger.Warn(msg, "error", err, "address", l.Addr().String(), "dropped", l.shed.Load(), "pauses", l.pauses.Load())
	}
}

// shedOne waits for a connection and closes it, so that its client is not left hanging for lack of a descriptor. For that it gives up the
// spare descriptor, accepts and closes the connection, and opens the spare one again. It reports whether accepting may go on without a pause.
//
// Linux allocates the descriptor before it looks for a connection, so accepting may have failed although no client has connected. Then shedOne
// waits in the poller until a client connects, and leaves the connection to the next attempt: descriptors may be free by then.
func (l *Listener) shedOne() (ok bool) {
	if l.socket == nil || !sockopt.HasSpareFD {
		return false
	}
	waited := false
	if err := l.wait(func(fd uintptr) bool {
		if waited {
			ok = true
			return true
		}
		waited = true
		switch err := l.spareFD.AcceptAndClose(int(fd)); {
		case err == nil:
			l.shed.Add(1)
			ok = true
			return true
		case sockopt.IsErrno(err, syscall.EAGAIN):
			return false
		default:
			ok = sockopt.IsErrno(err, syscall.ECONNABORTED)
			return true
		}
	}); err != nil {
		return true // the listener is closed: the next attempt returns that
	}
	return ok
}
