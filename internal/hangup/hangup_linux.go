package hangup

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/handle"
)

// The states of a peer. Below due they are the number of reads that have found nothing.
const (
	due       uint32 = 4 + iota // it should be watched: to begin costs as much as some reads, too much for who says little
	watched                     // it is, and has not ended
	over                        // it is, and has ended
	unwatched                   // it is not, and will not be
)

// Peer is what the reader of a socket keeps of the peer. The methods are the reader's.
type Peer struct {
	Conn   syscall.RawConn // the socket; set when made
	handle uint64          // valid while watched or over; guarded by the watch's mutex
	FD     int32           // of the socket; set by the reader
	state  atomic.Uint32   // the reader's until it is watched, then the watch's until Forget
}

// Told reports whether it is enough to wait after a read that did not fill its buffer, because the peer's end will be told.
func (p *Peer) Told() bool { return p.state.Load() == watched }

// Hollow is to be called when a read after another has found nothing. It reports whether that happens again and again, and the peer should be
// watched.
func (p *Peer) Hollow() bool {
	n := p.state.Load()
	if n < due {
		n++
		p.state.Store(n)
	}
	return n == due
}

// Exclude has the peer never watched. It is to be called before all else.
func (p *Peer) Exclude() { p.state.Store(unwatched) }

// Later has it take as many hollow reads again until the peer should be watched, which it should be now.
func (p *Peer) Later() { p.state.Store(0) }

// Due reports whether the peer should be watched and is not.
func (p *Peer) Due() bool { return p.state.Load() == due }

// Watch watches peers, with a goroutine and three descriptors from the first one until Close. The zero value is ready for use. Its methods may
// be called concurrently.
type Watch struct {
	mu sync.Mutex
	// Guarded by mu.
	list   *epoll.List // made for the first peer, closed by the goroutine
	peers  handle.Table[*Peer]
	closed bool

	work sync.WaitGroup
}

// Begin has p watched from now on, if it can be. It is to be called by the reader, at most once, while the descriptor cannot be closed.
func (w *Watch) Begin(p *Peer) {
	w.mu.Lock()
	begun := w.beginLocked()
	if begun {
		p.state.Store(watched)
		p.handle = w.peers.Add(p)
	}
	list := w.list
	w.mu.Unlock()
	switch {
	case !begun:
		p.state.Store(unwatched)
	case list.Add(int(p.FD), epoll.End|epoll.Edge|epoll.OneShot, p.handle) != nil: // without the mutex, for which others may wait
		w.Forget(p)
	}
}

// beginLocked reports whether there is a list, and somebody who looks at it.
func (w *Watch) beginLocked() bool {
	if w.list == nil && !w.closed {
		list, err := epoll.New()
		if err != nil {
			return false
		}
		w.list = list
		w.work.Go(func() { run(w, list) })
	}
	return !w.closed
}

// Forget ends the watch of p, if there is one, before its socket is closed. It is to be called once, by the reader.
func (w *Watch) Forget(p *Peer) {
	if p.state.Load() < watched {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.state.Load() != unwatched {
		w.peers.Remove(p.handle)
		p.state.Store(unwatched)
	}
}

// Close has nobody told any more: it is for the time when all readers have come to their ends. Nobody may be in Begin.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = true; w.list != nil {
		w.list.Wake()
	}
}

// Wait waits until the goroutine has ended, which it does after Close.
func (w *Watch) Wait() { w.work.Wait() }

func run(w *Watch, list *epoll.List) {
	var ended []*Peer
	for events := epoll.NewBuffer(64); ; {
		if list.Park(events, -1) != nil { // for want of a descriptor
			_ = list.Wait(events, -1)
		}
		var goOn bool
		if ended, goOn = w.note(events, ended[:0]); !goOn {
			_ = list.Close()
			return
		}
		for _, p := range ended {
			p.tell()
		}
		clear(ended)
	}
}

// note notes who has ended, and adds them to a list. It returns false when nobody is to be told any more.
func (w *Watch) note(events *epoll.Buffer, ended []*Peer) (all []*Peer, goOn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events.Len() {
		ev := events.At(i)
		if ev.Woken() {
			w.list.Rested()
		} else if p, ok := w.peers.At(ev.Data()); ok {
			p.state.Store(over)
			ended = append(ended, p)
		}
	}
	return ended, !w.closed
}

// tell tells the reader, after it was noted. If its socket is closed meanwhile there is nothing to tell.
func (p *Peer) tell() {
	_ = p.Conn.Control(func(fd uintptr) {
		if hungUp(fd) {
			_ = syscall.Shutdown(int(fd), syscall.SHUT_RD)
		}
	})
}

// hungUp reports whether the peer has ended. The report may have been of a mere error, and is the last; an end after this question comes when
// the reader knows that it has to read until there is nothing.
func hungUp(fd uintptr) bool {
	ask := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: syscall.EPOLLRDHUP} //nolint:gosec // descriptors are small
	var now syscall.Timespec
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n > 0 && ask.revents&(syscall.EPOLLRDHUP|syscall.EPOLLHUP) != 0
}
