package epoll

import (
	"os"
	"syscall"
)

// relay is a list in the runtime's poller that watches another one, while it is told to. If that were in the poller itself, each of its reports
// would wake a thread that waits there, and be it for somebody else: where nobody parked, that took as much CPU again as the reports.
type relay struct {
	fd, list int
	file     *os.File // fd's
	rc       syscall.RawConn
}

// newRelay makes one that tells nothing.
func newRelay(list int) (*relay, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = control(fd, syscall.EPOLL_CTL_ADD, list, new(syscall.EpollEvent))
	if err == nil {
		err = os.NewSyscallError("fcntl", syscall.SetNonblock(fd, true)) // what tells package os to use the poller
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "epoll")
	rc, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &relay{fd: fd, list: list, file: file, rc: rc}, nil
}

// tell sets of what the poller is told: of nothing, or of In|Edge. What the list has to report already counts.
func (r *relay) tell(of uint32) {
	_ = control(r.fd, syscall.EPOLL_CTL_MOD, r.list, &syscall.EpollEvent{Events: of}) // there is no reason for which it could fail
}
