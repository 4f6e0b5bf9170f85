//go:build unix

package reserve

import (
	"errors"
	"sync"
	"syscall"
)

var errNoReserve = errors.New("no descriptor in reserve")

// Possible says that there are descriptors to have and to give up.
const Possible = true

// Reserve is a descriptor that is open for nothing, to be given up when there is no other. The lock is held over its system calls,
// none of which can block: two in need at once would take each other's.
type Reserve struct {
	mu    sync.Mutex
	fd    int
	taken bool // fd is open
	ended bool
}

// Fill takes a descriptor if the reserve is empty.
func (r *Reserve) Fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fillLocked()
}

func (r *Reserve) fillLocked() {
	if r.taken || r.ended {
		return
	}
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		r.fd, r.taken = fd, true
	}
}

// Spend accepts a connection with the reserve's place, closes it, and fills the reserve again. The error is accept's.
func (r *Reserve) Spend(listener int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fillLocked()
	if !r.taken {
		return errNoReserve
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

// Close gives the descriptor back for good.
func (r *Reserve) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.taken {
		_ = syscall.Close(r.fd)
		r.taken = false
	}
}
