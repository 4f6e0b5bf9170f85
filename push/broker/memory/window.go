package memory

import (
	"crypto/sha256"
	"time"
)

// idempotencyWindow is for how long a publish with the same key counts as the same publish.
const idempotencyWindow = 5 * time.Minute

// digest stands for a channel and an idempotency key, in the same few bytes however long they are.
type digest [sha256.Size]byte

// digestOf returns nil when there is no key.
func digestOf(channel, key string) *digest {
	if key == "" {
		return nil
	}
	sum := digest(sha256.Sum256([]byte(channel + "\x00" + key)))
	return &sum
}

// window remembers for a while at which offset something was stored: a map, and a queue of what to forget next. Times must not
// go back. Its owner locks.
type window struct {
	most  int // remembered at once; 0 or less: no limit
	known map[digest]uint64
	queue []remembered // oldest first, from index front on
	front int
}

type remembered struct {
	sum  digest
	time int64 // Unix milliseconds
}

func newWindow(most int) window {
	return window{most: most, known: make(map[digest]uint64)}
}

// look returns the offset at which sum was stored within the window, if it was.
func (w *window) look(sum digest, now int64) (offset uint64, isDuplicate bool) {
	w.forget(now-idempotencyWindow.Milliseconds(), len(w.known))
	offset, isDuplicate = w.known[sum]
	return offset, isDuplicate
}

// add remembers what look did not know. If there is no room the oldest is forgotten early: one publisher with very many keys must not stop the
// others.
func (w *window) add(sum digest, now int64, offset uint64) {
	if w.most > 0 {
		w.forget(now-idempotencyWindow.Milliseconds(), w.most-1)
	}
	w.known[sum] = offset
	w.queue = append(w.queue, remembered{sum, now})
}

// forget drops what was stored at or before the time then, and the oldest beyond a number. The queue is copied when half of it was dropped, so that a step costs
// little on average and the queue stays within twice what is remembered.
func (w *window) forget(then int64, most int) {
	for w.front < len(w.queue) && (w.queue[w.front].time <= then || len(w.known) > most) {
		delete(w.known, w.queue[w.front].sum)
		w.front++
	}
	if w.front > len(w.queue)/2 {
		w.queue = append(w.queue[:0:0], w.queue[w.front:]...)
		w.front = 0
	}
}
