package eventloop

import (
	"os"
	"syscall"
)

// relay is an epoll instance in the runtime's poller that watches a Poller while it is told to. If the Poller itself were in the runtime's
// poller, each of its events would wake a thread that waits there for something else, which doubled the CPU time of events.
type relay struct {
	fd, list int
	file     *os.File // fd's
	rc       syscall.RawConn
}

// newRelay makes a relay that watches nothing.
func newRelay(list int) (*relay, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = control(fd, syscall.EPOLL_CTL_ADD, list, new(syscall.EpollEvent))
	if err == nil {
		err = os.NewSyscallError("fcntl", syscall.SetNonblock(fd, true)) // makes package os use the runtime's poller
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

// tell sets the events to watch for: none, or In|Edge. Events that the Poller has already count.
func (r *relay) tell(of uint32) {
	_ = control(r.fd, syscall.EPOLL_CTL_MOD, r.list, &syscall.EpollEvent{Events: of}) // there is no reason for which it could fail
}
