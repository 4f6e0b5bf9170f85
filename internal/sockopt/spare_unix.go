//go:build unix

package sockopt

import (
	"errors"
	"sync"
	"syscall"
)

var errNoSpareFD = errors.New("no spare descriptor")

// HasSpareFD reports whether SpareFD works on this system.
const HasSpareFD = true

// SpareFD is a descriptor that is kept open for the case that the process has no other left. Its mutex is held during its system calls, none of
// which can block. Otherwise two goroutines that need the descriptor at once could take each other's.
type SpareFD struct {
	mu    sync.Mutex
	fd    int
	taken bool // fd is open
	ended bool
}

// Fill opens the spare descriptor if it is not open.
func (r *SpareFD) Fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fillLocked()
}

func (r *SpareFD) fillLocked() {
	if r.taken || r.ended {
		return
	}
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		r.fd, r.taken = fd, true
	}
}

// AcceptAndClose closes the spare descriptor, accepts a connection in its place, closes that connection, and opens the spare descriptor again. The
// error is that of accept.
func (r *SpareFD) AcceptAndClose(listener int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fillLocked()
	if !r.taken {
		return errNoSpareFD
	}
	_ = syscall.Close(r.fd)
	r.taken = false
	defer r.fillLocked()
	for {
		fd, _, err := syscall.Accept(listener)
		if err == nil {
			return syscall.Close(fd)
		}
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Close closes the spare descriptor for good.
func (r *SpareFD) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.taken {
		_ = syscall.Close(r.fd)
		r.taken = false
	}
}
