package eventloop

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
	PeerEnd uint32 = syscall.EPOLLRDHUP   // the peer sends nothing more
	OneShot uint32 = syscall.EPOLLONESHOT // after one report nothing more, until Change
	Edge    uint32 = 1 << 31              // EPOLLET: nothing more until something has happened, or Change
)

// woken is the ID of the descriptor that Wake writes to.
const woken = ^uint64(0)

// Event says that a descriptor is ready.
type Event struct {
	Ready uint32
	data  [2]int32
}

// ID returns what was given to Add.
func (e *Event) ID() uint64 { return uint64(uint32(e.data[0])) | uint64(uint32(e.data[1]))<<32 }

// IsWake reports whether the event is the trace of a Wake.
func (e *Event) IsWake() bool { return e.ID() == woken }

// Poller is an epoll instance: a set of descriptors with their interest, and a way to wake the goroutine that waits. See epoll(7) and
// eventfd(2). Add, Change, Remove and Wake may be called by any goroutine before Close; Poll, Wait and Park by one at a time. Calls that cannot
// block are raw system calls, which bypass the scheduler.
type Poller struct {
	fd   int
	wake int

	// Owned by the goroutine that waits. While relayed, a relay reports events to the runtime's poller. The relay is made when it is first
	// needed.
	relay   *relay
	relayed bool
	poll    func(uintptr) bool // tryPoll
	parked  *EventBuffer       // the buffer that tryPoll fills
	polled  error
	until   time.Time // the deadline, zero for none
	late    bool      // it has passed
}

// NewPoller makes a Poller that watches nothing.
func NewPoller() (*Poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	p := &Poller{fd: fd, wake: int(wake)}
	if err := p.Add(p.wake, In, woken); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Add begins to watch fd for what ready says. The data is the ID of its events, and must not be ^uint64(0).
func (p *Poller) Add(fd int, ready uint32, data uint64) error {
	return p.control(syscall.EPOLL_CTL_ADD, fd, ready, data)
}

// Change watches fd for something else from now on.
func (p *Poller) Change(fd int, ready uint32, data uint64) error {
	return p.control(syscall.EPOLL_CTL_MOD, fd, ready, data)
}

// Remove stops watching fd.
func (p *Poller) Remove(fd int) error { return p.control(syscall.EPOLL_CTL_DEL, fd, 0, 0) }

func (p *Poller) control(op uintptr, fd int, ready uint32, data uint64) error {
	ev := syscall.EpollEvent{Events: ready, Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32))}
	return control(p.fd, op, fd, &ev)
}

func control(list int, op uintptr, fd int, ev *syscall.EpollEvent) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(list), op, uintptr(fd), uintptr(unsafe.Pointer(ev)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("epoll_ctl", errno)
	}
	return nil
}

// EventBuffer receives the events of one Wait.
type EventBuffer struct {
	raw []syscall.EpollEvent
	n   int
}

// NewEventBuffer makes a buffer for up to n events.
func NewEventBuffer(n int) *EventBuffer { return &EventBuffer{raw: make([]syscall.EpollEvent, n)} }

// Len is the number of events of the last Wait.
func (b *EventBuffer) Len() int { return b.n }

// At returns an event of the last Wait.
func (b *EventBuffer) At(i int) Event {
	ev := &b.raw[i]
	return Event{Ready: ev.Events, data: [2]int32{ev.Fd, ev.Pad}}
}

// Poll fills b with the events that are ready now.
func (p *Poller) Poll(b *EventBuffer) error {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b.raw))),
		uintptr(len(b.raw)), 0, 0, 0)
	return b.filled(int(n), errno)
}

// Wait waits for events and fills b with them. It waits for at most d, which is rounded up to milliseconds, or without end if d is negative. It
// may return earlier without events.
func (p *Poller) Wait(b *EventBuffer, d time.Duration) error {
	ms := -1
	if d >= 0 {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	if p.relayed {
		p.relayed = false
		p.relay.tell(0)
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b.raw))),
		uintptr(len(b.raw)), uintptr(ms), 0, 0)
	return b.filled(int(n), errno)
}

// Park is Wait in the runtime's poller. The goroutine keeps neither a thread in the kernel nor, until the runtime notices, a processor. Being woken
// takes a little longer.
func (p *Poller) Park(b *EventBuffer, d time.Duration) error {
	if d == 0 {
		return p.Poll(b)
	}
	if err := p.Prepare(); err != nil {
		return err
	}
	if !p.relayed {
		p.relayed = true
		p.relay.tell(In | Edge)
	}
	if err := p.wakeBy(d); err != nil {
		return err
	}
	// The poller tells of changes only: there is nothing to wait for before Poll has found nothing.
	b.n = 0
	p.parked = b
	err := p.relay.rc.Read(p.poll)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.until, err = time.Time{}, nil
		p.late = true
	}
	return errors.Join(p.polled, err)
}

// Prepare makes what Park needs, which takes a descriptor. The kernel looks at everything that is watched for that, 0.24 µs each.
func (p *Poller) Prepare() (err error) {
	if p.relay == nil {
		p.relay, err = newRelay(p.fd)
		p.poll = p.tryPoll
	}
	return err
}

// wakeBy has the poller return in d, or never if that is negative. It may do so earlier: a deadline that is near enough is not moved.
func (p *Poller) wakeBy(d time.Duration) error {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if !p.late && (p.until.Equal(until) || d > 0 && !p.until.IsZero() && p.until.Before(until)) {
		return nil
	}
	p.until, p.late = until, false
	return p.relay.file.SetReadDeadline(until)
}

// tryPoll is called by the poller, for Park.
func (p *Poller) tryPoll(uintptr) bool {
	p.polled = p.Poll(p.parked)
	return p.polled != nil || p.parked.n > 0
}

func (b *EventBuffer) filled(n int, errno syscall.Errno) error {
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

// Wake makes Wait or Park return, or the next call if no goroutine waits. There is an event that IsWake then, and ClearWake is called.
func (p *Poller) Wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.wake), uintptr(unsafe.Pointer(&one)), 8)
}

// ClearWake forgets all calls of Wake so far.
func (p *Poller) ClearWake() {
	var count [8]byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(p.wake), uintptr(unsafe.Pointer(&count)), 8)
}

// Close gives the descriptors back. No method may be called any more, and none may be running.
func (p *Poller) Close() error {
	if p.relay != nil {
		_ = p.relay.file.Close()
	}
	_ = syscall.Close(p.wake)
	return os.NewSyscallError("close", syscall.Close(p.fd))
}
