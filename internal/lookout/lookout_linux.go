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

// New makes one for a socket that does not block. It fails where no more than one in share of the descriptors that the process may have is left,
// because there may be as many Lookouts as sockets. The caller still has to close its own descriptor; the socket lives until both are closed.
func New(fd, share int) (*Lookout, error) {
	other, err := socket.Duplicate(uintptr(fd), 0)
	if err != nil {
		return nil, err
	}
	if socket.Few(other, share) {
		_ = syscall.Close(other)
		return nil, fmt.Errorf("descriptor %d: no more than one in %d is left: %w", other, share, syscall.EMFILE)
	}
	l := &Lookout{file: os.NewFile(uintptr(other), "socket")}
	if l.conn, err = l.file.SyscallConn(); err == nil {
		err = l.file.SetReadDeadline(time.Time{}) // an error where the poller does not take it
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

// For says for how long from now Wait may wait, also one that does already. It may be called by any goroutine.
func (l *Lookout) For(d time.Duration) error {
	return l.file.SetReadDeadline(time.Now().Add(d))
}

// Recall ends Wait, or the next one, as if the time were over. It may be called by any goroutine.
func (l *Lookout) Recall() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) }

// Close gives the number back. Nobody may be in Wait.
func (l *Lookout) Close() { _ = l.file.Close() }
