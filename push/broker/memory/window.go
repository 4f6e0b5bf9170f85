package memory

import (
	"crypto/sha256"
	"time"
)

// idempotencyWindow is for how long a publish with the same key counts as the same publish.
const idempotencyWindow = 5 * time.Minute

// digest is a hash of a channel and an idempotency key. It takes the same few bytes, however long they are.
type digest [sha256.Size]byte

// digestOf returns the digest, or nil if there is no key.
func digestOf(channel, key string) *digest {
	if key == "" {
		return nil
	}
	sum := digest(sha256.Sum256([]byte(channel + "\x00" + key)))
	return &sum
}

// window remembers the offset of each digest that was stored within the last idempotencyWindow, as a map and a queue in the order of time. Times
// must not go back. The owner locks.
type window struct {
	most  int // how many are remembered at once; 0 or less: no limit
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

// look returns the offset at which sum was stored within the window. It reports false if sum is not known.
func (w *window) look(sum digest, now int64) (offset uint64, isDuplicate bool) {
	w.forget(now-idempotencyWindow.Milliseconds(), len(w.known))
	offset, isDuplicate = w.known[sum]
	return offset, isDuplicate
}

// add remembers a digest that look did not find. If there is no room, the oldest is forgotten early: one publisher with very many keys must not
// stop the others.
func (w *window) add(sum digest, now int64, offset uint64) {
	if w.most > 0 {
		w.forget(now-idempotencyWindow.Milliseconds(), w.most-1)
	}
	w.known[sum] = offset
	w.queue = append(w.queue, remembered{sum, now})
}

// forget drops the digests stored at or before the time then, and the oldest ones until no more than most are left. It copies the queue when
// half of it has been dropped. So a step costs little on average, and the queue stays within twice the number of digests.
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
