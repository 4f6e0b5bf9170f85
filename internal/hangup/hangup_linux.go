package hangup

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-push/sluice/internal/epoll"
	"github.com/sluice-push/sluice/internal/handle"
)

// What is known of a peer: so many reads have found nothing, up to
const (
	due     uint32 = 4 + iota // and then it is worth watching: to begin costs as much as some reads, which is too much for who says little.
	watched                   // It is watched
	over                      // until it has ended,
	alone                     // or it is not, for want of memory or descriptors, or because that is over.
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

// Hollow is to be called when a read has found nothing. It reports whether that happens again and again, and the peer should be watched.
func (p *Peer) Hollow() bool {
	n := p.state.Load()
	if n < due {
		n++
		p.state.Store(n)
	}
	return n == due
}

// Alone has the peer never watched. It is to be called before all else.
func (p *Peer) Alone() { p.state.Store(alone) }

// Due reports whether the peer should be watched and is not.
func (p *Peer) Due() bool { return p.state.Load() == due }

// Watch watches peers, with a goroutine while it has any reason to. The zero value is ready for use. Its methods may be called concurrently.
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
	defer w.mu.Unlock()
	if !w.beginLocked() {
		p.state.Store(alone)
		return
	}
	p.state.Store(watched)
	p.handle = w.peers.Add(p)
	if err := w.list.Add(int(p.FD), epoll.End|epoll.Edge|epoll.OneShot, p.handle); err != nil {
		w.peers.Remove(p.handle)
		p.state.Store(alone)
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
	if p.state.Load() != alone {
		w.peers.Remove(p.handle)
		p.state.Store(alone)
	}
}

// Close has nobody told any more. Readers go on as if nobody had been watched only if they have come to their ends: it is for the time when
// all of them have.
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
	for events := epoll.NewBuffer(64); ; {
		if list.Park(events, -1) != nil { // for want of a descriptor
			_ = list.Wait(events, -1)
		}
		if !w.tell(events) {
			_ = list.Close()
			return
		}
	}
}

// tell tells the readers of those who have ended. It returns false when nobody is to be told any more.
func (w *Watch) tell(events *epoll.Buffer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events.Len() {
		ev := events.At(i)
		if ev.Woken() {
			w.list.Rested()
			continue
		}
		p, ok := w.peers.At(ev.Data())
		if !ok {
			continue
		}
		p.state.Store(over)
		if ev.Ready&(epoll.End|epoll.Hup) != 0 { // a mere error was told where the reader waits, and is for the reads that follow
			_ = p.Conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
		}
	}
	return !w.closed
}
