package nats

import (
	"sync"

	"github.com/sluice-push/sluice/push"
)

// window bounds what is under way in a partition: publications that were sent and are not acknowledged, and those acknowledged that
// a follower of this process was not given yet. Of each subject, which is a channel of a stream or a row of a table, it lets at most as
// many be under way as the store keeps of it, so that none is evicted before it was delivered. All methods may be called
// concurrently.
type window struct {
	limit int // set at New

	mu         sync.Mutex
	epoch      string // guarded by mu, like all that follows: the life of the partition
	perSubject int    // 0: no such bound
	total      int
	subjects   map[string]int         // under way
	stored     []storedAt             // acknowledged and not delivered to everybody, by offset
	followers  map[*attachment]uint64 // the offset up to which each was given everything
	room       chan struct{}          // closed when there may be room; nil when nobody waits
}

type storedAt struct {
	offset  uint64
	subject string
	then    func() // nil, or called when it was delivered
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

// enter takes a place for a publication. When there is none it returns a channel that is closed when that may have
// changed.
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
	w.subjects[subject]++ // also without a bound, which may come
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

// acknowledged gives the place back when all followers were given the position, and then calls then, if it is not nil. When another life
// has begun, nobody is given it.
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

// deliveredLocked is the offset up to which all followers were given everything.
func (w *window) deliveredLocked() uint64 {
	least := ^uint64(0)
	for _, offset := range w.followers {
		least = min(least, offset)
	}
	return least
}

// delivered notes that a follower was given everything up to offset.
func (w *window) delivered(a *attachment, offset uint64) {
	w.mu.Lock()
	if _, ok := w.followers[a]; ok {
		w.followers[a] = offset
	}
	w.release()
}

// release gives back the places of what was delivered, and unlocks.
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

// attach adds a follower: from now on its pace counts. Of what was published before, nothing is waited for.
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

// reset forgets what was acknowledged: another life of the partition has begun.
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
