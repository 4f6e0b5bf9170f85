package lookout

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/socket"
)

// Lookout is another number for a socket's descriptor, by which the runtime's poller knows it.
type Lookout struct {
	file *os.File
	conn syscall.RawConn
}

// New makes one for a socket that does not block. There may be as many as there are sockets, so it fails where fewer descriptors than one in so many
// of those that the process may have are left for others. The socket stays the caller's, and open until Close of both.
func New(fd, share int) (*Lookout, error) {
	other, err := socket.Duplicate(uintptr(fd), 0)
	if err != nil {
		return nil, err
	}
	if limit := socket.Limit(); other >= limit-limit/share { // the lowest number that is free
		_ = syscall.Close(other)
		return nil, fmt.Errorf("descriptor %d of %d: %w", other, limit, syscall.EMFILE)
	}
	l := &Lookout{file: os.NewFile(uintptr(other), "socket")}
	if l.conn, err = l.file.SyscallConn(); err == nil {
		err = l.For(0) // which the poller has to take
	}
	if err != nil {
		_ = l.file.Close()
		return nil, err
	}
	return l, nil
}

// Wait calls try, and again whenever something has come since it was called, until it returns true. It reports whether the time that For gave was
// over before that. An error means that the socket has something else to say, such as reports of what was sent.
func (l *Lookout) Wait(try func(fd uintptr) bool) (over bool, err error) {
	if err = l.conn.Read(try); errors.Is(err, os.ErrDeadlineExceeded) {
		return true, nil
	}
	return false, err
}

// For says for how long from now Wait may wait, also one that does already; 0 is without end. It may be called by any goroutine.
func (l *Lookout) For(d time.Duration) error {
	if d == 0 {
		return l.file.SetReadDeadline(time.Time{})
	}
	return l.file.SetReadDeadline(time.Now().Add(d))
}

// Recall ends Wait, or the next one, as if the time were over. It may be called by any goroutine.
func (l *Lookout) Recall() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) }

// Close gives the number back. Nobody may be in Wait.
func (l *Lookout) Close() { _ = l.file.Close() }
