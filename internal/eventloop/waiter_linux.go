package eventloop

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Waiter lets a goroutine wait for a socket in the Go runtime's poller although the socket is also registered with an event loop. It is a second
// descriptor of the socket.
type Waiter struct {
	file *os.File
	conn syscall.RawConn
}

// waiters is how many Waiters the process has.
var waiters atomic.Int64

// NewWaiter makes one for a socket that does not block. It fails if no more than one in share of the descriptors that the process may have is left,
// and if Waiters have half as many: there may be as many of them as sockets, and many more sockets may come while these have Waiters. The
// caller still closes its own descriptor. The socket lives until both are closed.
func NewWaiter(fd, share int) (_ *Waiter, err error) {
	if n := waiters.Add(1); n > int64(sockopt.FileLimit()/(2*share)) {
		waiters.Add(-1)
		return nil, fmt.Errorf("file descriptor %d: there are %d others for waiting: %w", fd, n-1, syscall.EMFILE)
	}
	defer func() {
		if err != nil {
			waiters.Add(-1)
		}
	}()
	other, err := sockopt.Duplicate(uintptr(fd), 0)
	if err != nil {
		return nil, err
	}
	if sockopt.NearFileLimit(other, share) {
		_ = syscall.Close(other)
		return nil, fmt.Errorf("file descriptor %d: less than one in %d is left: %w", other, share, syscall.EMFILE)
	}
	w := &Waiter{file: os.NewFile(uintptr(other), "socket")}
	if w.conn, err = w.file.SyscallConn(); err == nil {
		err = w.file.SetReadDeadline(time.Time{}) // an error if the poller does not take it
	}
	if err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

// Wait calls try, and again whenever bytes have arrived since, until it returns true. It reports whether the timeout has passed before that. An error
// means that the socket has something else to report, such as what was sent without copying.
func (w *Waiter) Wait(try func(fd uintptr) bool) (timedOut bool, err error) {
	if err = w.conn.Read(try); errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

// SetTimeout says for how long from now Wait may wait, also a call that waits already. Any goroutine may call it.
func (w *Waiter) SetTimeout(d time.Duration) error {
	return w.file.SetReadDeadline(time.Now().Add(d))
}

// Interrupt ends Wait, or the next call of it, as if the timeout had passed. Any goroutine may call it.
func (w *Waiter) Interrupt() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

// Close gives the descriptor back. It is called once, when no goroutine is in Wait.
func (w *Waiter) Close() {
	_ = w.file.Close()
	waiters.Add(-1)
}
