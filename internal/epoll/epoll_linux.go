package epoll

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// What a descriptor may be ready for, and how it is watched. Err and Hup are always reported.
const (
	In      uint32 = syscall.EPOLLIN
	Out     uint32 = syscall.EPOLLOUT
	Err     uint32 = syscall.EPOLLERR
	Hup     uint32 = syscall.EPOLLHUP
	End     uint32 = syscall.EPOLLRDHUP   // the peer sends nothing more
	OneShot uint32 = syscall.EPOLLONESHOT // after one report nothing more, until Change
	Edge    uint32 = 1 << 31              // EPOLLET: nothing more until something has happened, or Change
)

// woken is the data of the descriptor that Wake writes to.
const woken = ^uint64(0)

// Event says that a descriptor is ready.
type Event struct {
	Ready uint32
	data  [2]int32
}

// Data returns what was given to Add.
func (e *Event) Data() uint64 { return uint64(uint32(e.data[0])) | uint64(uint32(e.data[1]))<<32 }

// Woken reports whether the event is the trace of a Wake.
func (e *Event) Woken() bool { return e.Data() == woken }

// List is an interest list. Add, Change, Remove and Wake may be called by anybody at any time before Close; Wait by one at a time.
type List struct {
	fd   int
	wake int

	// Owned by who waits: the runtime's poller is told while relayed, by a relay that is made when it is first needed.
	relay   *relay
	relayed bool
	poll    func(uintptr) bool // tryPoll
	parked  *Buffer            // what it fills
	polled  error
	until   time.Time // the deadline, zero for none
	late    bool      // it has passed
}

// New makes an empty list.
func New() (*List, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	l := &List{fd: fd, wake: int(wake)}
	if err := l.Add(l.wake, In, woken); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Add begins to watch fd for what ready says. The data must not be ^uint64(0).
func (l *List) Add(fd int, ready uint32, data uint64) error {
	return l.control(syscall.EPOLL_CTL_ADD, fd, ready, data)
}

// Change watches fd for something else from now on.
func (l *List) Change(fd int, ready uint32, data uint64) error {
	return l.control(syscall.EPOLL_CTL_MOD, fd, ready, data)
}

// Remove stops watching fd.
func (l *List) Remove(fd int) error { return l.control(syscall.EPOLL_CTL_DEL, fd, 0, 0) }

func (l *List) control(op uintptr, fd int, ready uint32, data uint64) error {
	ev := syscall.EpollEvent{Events: ready, Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32))}
	return control(l.fd, op, fd, &ev)
}

func control(list int, op uintptr, fd int, ev *syscall.EpollEvent) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(list), op, uintptr(fd), uintptr(unsafe.Pointer(ev)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// Buffer receives the events of one Wait.
type Buffer struct {
	raw []syscall.EpollEvent
	n   int
}

// NewBuffer makes a buffer for up to n events.
func NewBuffer(n int) *Buffer { return &Buffer{raw: make([]syscall.EpollEvent, n)} }

// Len is the number of events of the last Wait.
func (b *Buffer) Len() int { return b.n }

// At returns an event of the last Wait.
func (b *Buffer) At(i int) Event {
	ev := &b.raw[i]
	return Event{Ready: ev.Events, data: [2]int32{ev.Fd, ev.Pad}}
}

// Poll fills b with what is ready now.
func (l *List) Poll(b *Buffer) error {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b.raw))),
		uintptr(len(b.raw)), 0, 0, 0)
	return b.filled(int(n), errno)
}

// Wait fills b with what is ready, waiting for it: for at most d, which is rounded up to milliseconds, or without end if d is
// negative. It may return with nothing before that.
func (l *List) Wait(b *Buffer, d time.Duration) error {
	ms := -1
	if d >= 0 {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	if l.relayed {
		l.relayed = false
		l.relay.tell(0)
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b.raw))),
		uintptr(len(b.raw)), uintptr(ms), 0, 0)
	return b.filled(int(n), errno)
}

// Park is Wait for a goroutine that others wait for: instead of a thread in the kernel, with a processor until the runtime notices, it
// keeps nothing. It is woken by the runtime's poller, which takes a little longer.
func (l *List) Park(b *Buffer, d time.Duration) error {
	if d == 0 {
		return l.Poll(b)
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	if !l.relayed {
		l.relayed = true
		l.relay.tell(In | Edge)
	}
	if err := l.wakeBy(d); err != nil {
		return err
	}
	// The poller tells of changes only: there is nothing to wait for before Poll has found nothing.
	b.n = 0
	l.parked = b
	err := l.relay.rc.Read(l.poll)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.until, err = time.Time{}, nil
		l.late = true
	}
	return errors.Join(l.polled, err)
}

// Prepare makes what Park needs: a descriptor. The kernel looks at everything in the list for that, which takes 0.24 µs each.
func (l *List) Prepare() (err error) {
	if l.relay == nil {
		l.relay, err = newRelay(l.fd)
		l.poll = l.tryPoll
	}
	return err
}

// wakeBy has the poller return in d, or never if that is negative. It may do so earlier: a deadline that is near enough is not moved.
func (l *List) wakeBy(d time.Duration) error {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if !l.late && (l.until.Equal(until) || d > 0 && !l.until.IsZero() && l.until.Before(until)) {
		return nil
	}
	l.until, l.late = until, false
	return l.relay.file.SetReadDeadline(until)
}

// tryPoll is called by the poller, for Park.
func (l *List) tryPoll(uintptr) bool {
	l.polled = l.Poll(l.parked)
	return l.polled != nil || l.parked.n > 0
}

func (b *Buffer) filled(n int, errno syscall.Errno) error {
	b.n = 0
	switch errno {
	case 0:
		b.n = n
		return nil
	case syscall.EINTR:
		return nil
	default:
		return os.NewSyscallError("epoll_wait", errno)
	}
}

// Wake makes Wait return, or the next one if nobody waits. Who waits then sees an event that is Woken, and calls Rested.
func (l *List) Wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.wake), uintptr(unsafe.Pointer(&one)), 8)
}

// Rested forgets all calls of Wake so far.
func (l *List) Rested() {
	var count [8]byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(l.wake), uintptr(unsafe.Pointer(&count)), 8)
}

// Close gives the descriptors back. Nothing may be called any more, and nobody may be in Wait.
func (l *List) Close() error {
	if l.relay != nil {
		_ = l.relay.file.Close()
	}
	_ = syscall.Close(l.wake)
	return os.NewSyscallError("close", syscall.Close(l.fd))
}
