package nats

import (
	"sync"

	"github.com/sluice-push/sluice/push"
)

// window bounds the pending publications of a partition: those not yet acknowledged, and those not yet delivered to every follower of this
// process. A subject is a channel of a stream, or a row of a table. Of each subject, at most as many are pending as the store keeps, so that
// none is evicted before it was delivered. All methods may be called concurrently.
type window struct {
	limit int // immutable

	mu         sync.Mutex
	epoch      string // guarded by mu, like all that follows
	perSubject int    // 0: no such bound
	total      int
	subjects   map[string]int         // pending publications of each
	stored     []storedAt             // acknowledged but not delivered to all followers, by offset
	followers  map[*attachment]uint64 // the offset up to which each has got everything
	room       chan struct{}          // closed when there may be room; nil while no publisher waits
}

type storedAt struct {
	offset  uint64
	subject string
	then    func() // nil, or called after delivery to all followers
}

func newWindow(limit, perSubject int) *window {
	return &window{limit: limit, perSubject: perSubject, subjects: make(map[string]int), followers: make(map[*attachment]uint64)}
}

func (w *window) setPerSubject(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.perSubject = n
	w.wakeLocked()
}

// enter takes a place for a publication. If there is none, it returns a channel that is closed when that may have changed.
func (w *window) enter(subject string) (wait <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total >= w.limit || w.perSubject > 0 && w.subjects[subject] >= w.perSubject {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		return w.room
	}
	w.total++
	w.subjects[subject]++ // also without a bound, because one may be set later
	return nil
}

// leave gives the place back.
func (w *window) leave(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked(subject)
}

func (w *window) leaveLocked(subject string) {
	w.total--
	if n := w.subjects[subject]; n > 1 {
		w.subjects[subject] = n - 1
	} else {
		delete(w.subjects, subject)
	}
	w.wakeLocked()
}

// acknowledged frees the place when all followers have got the position, and then calls then, unless it is nil. If the epoch has changed, no
// follower will get the position: the place is freed at once, and then is not called.
func (w *window) acknowledged(subject string, at push.Position, then func()) {
	w.mu.Lock()
	if at.Epoch != w.epoch {
		w.leaveLocked(subject)
		w.mu.Unlock()
		return
	}
	i := len(w.stored)
	for i > 0 && w.stored[i-1].offset > at.Offset { // acknowledgements come in order but for a few
		i--
	}
	w.stored = append(w.stored, storedAt{})
	copy(w.stored[i+1:], w.stored[i:])
	w.stored[i] = storedAt{at.Offset, subject, then}
	w.release()
}

// deliveredLocked returns the offset up to which all followers have got everything.
func (w *window) deliveredLocked() uint64 {
	least := ^uint64(0)
	for _, offset := range w.followers {
		least = min(least, offset)
	}
	return least
}

// delivered notes that a follower has got everything up to offset.
func (w *window) delivered(a *attachment, offset uint64) {
	w.mu.Lock()
	if _, ok := w.followers[a]; ok {
		w.followers[a] = offset
	}
	w.release()
}

// release frees the places of publications that were delivered, and unlocks.
func (w *window) release() {
	least, n := w.deliveredLocked(), 0
	var then []func()
	for n < len(w.stored) && w.stored[n].offset <= least {
		w.leaveLocked(w.stored[n].subject)
		if f := w.stored[n].then; f != nil {
			then = append(then, f)
		}
		n++
	}
	if n > 0 {
		w.stored = append(w.stored[:0], w.stored[n:]...)
	}
	w.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// attach adds a follower, for which publishers wait from now on. They do not wait for its earlier publications.
func (w *window) attach(a *attachment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followers[a] = a.start.Offset
}

func (w *window) detach(a *attachment) {
	w.mu.Lock()
	delete(w.followers, a)
	w.release()
}

// reset drops the acknowledged publications, because the epoch has changed.
func (w *window) reset(epoch string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch = epoch
	for _, s := range w.stored {
		w.leaveLocked(s.subject)
	}
	w.stored = nil
}

func (w *window) wakeLocked() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}
