// Package slowness remembers whose handlers block. A session whose turn was taken over, because its handler held up an event loop or the reader
// of a socket, is slow when that is no exception: its turns are given to goroutines until a number of them in a row was quick. When many were
// taken over within a short time that holds for all sessions of the server's loops, or of the socket. Times are nanoseconds of any clock that does
// not go back.
package slowness

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slowCount  = 8                      // as many take-overs
	slowWindow = 100 * time.Millisecond // within so long make all sessions slow,
	slowFor    = time.Second            // until no turn was slow for so long
	lately     = time.Second / 2        // less than slowFor, so that it ends while all sessions are slow, when nothing is taken over
	slowTurn   = time.Millisecond       // that is, took so long
	mostApart  = 2 * time.Millisecond   // two looks count for at most so much
	fewTurns   = 4                      // a session is slow when it was taken over in one of so many turns, or within
	again      = 2 * time.Second        // so long after the time before, times the quick turns in a row that it took to be forgiven then:
	mostQuick  = 128                    // four, and four times as many each time, up to so many
)

// All tells whether all sessions are slow. It may be used concurrently. The zero value says no.
type All struct {
	until  atomic.Int64 // they are until then
	window atomic.Int64 // when take-overs began to be counted
	taken  atomic.Int32 // how many there were since
	last   atomic.Int64 // when the last one was, 0 if there was none
}

// Slow reports whether they are.
func (w *All) Slow(now int64) bool { return now < w.until.Load() }

// Lately reports whether there was a take-over within half a second, so that the next is to be expected.
func (w *All) Lately(now int64) bool {
	last := w.last.Load()
	return last != 0 && now-last < int64(lately)
}

// Expect has Lately say that there was one now. Of several the latest counts.
func (w *All) Expect(now int64) { w.last.Store(max(now, w.last.Load())) }

// TookOver counts a take-over.
func (w *All) TookOver(now int64) {
	w.Expect(now)
	if now-w.window.Load() > int64(slowWindow) {
		w.window.Store(now)
		w.taken.Store(0)
	}
	if w.taken.Add(1) >= slowCount {
		w.until.Store(now + int64(slowFor))
	}
}

// Stay extends the time if it was not over when a turn began that took long.
func (w *All) Stay(began, now int64) {
	if w.until.Load() > began {
		w.until.Store(now + int64(slowFor))
	}
}

// Turn is a turn that was taken over. It counts once, when it is known to take long. The zero value has not been taken over.
type Turn struct {
	began atomic.Int64 // at the latest; 0 when there is nothing to count, or no more
}

// Lost says that it is taken over, and when it had begun at the latest; 0 is for one that does not count.
func (t *Turn) Lost(began int64) { t.began.Store(began) }

// Ended counts the turn at its end, or reports that it was short. It may be called while Turns.Count is.
func (t *Turn) Ended(all *All, now int64) (short bool) {
	began := t.began.Swap(0)
	if began != 0 && now-began >= int64(slowTurn) {
		all.TookOver(now)
		return false
	}
	return began != 0
}

// Turns are those that were taken over and may not have ended. They may be used concurrently. The zero value has none.
type Turns struct {
	mu  sync.Mutex
	all []*Turn
}

// Add adds one that was lost.
func (ts *Turns) Add(t *Turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = append(ts.all, t)
}

// Count counts those that take long, and forgets them and those that have ended. It reports whether there are others.
func (ts *Turns) Count(all *All, now int64) (others bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all = slices.DeleteFunc(ts.all, func(t *Turn) bool {
		began := t.began.Load()
		if began == 0 || now-began < int64(slowTurn) {
			return began == 0
		}
		if t.began.CompareAndSwap(began, 0) {
			all.TookOver(now)
		}
		return true
	})
	return len(ts.all) > 0
}

// Sight is what somebody who looks again and again has seen of one who is at work. It belongs to one goroutine at a time. The zero value has seen
// nothing.
type Sight struct {
	stamp  uint64
	since  int64 // for how long
	looked int64 // when
}

// Look reports for how long the same stamp has been seen, or 0 at first sight. Between two looks that lie far apart nobody ran, so that counts
// for little.
func (v *Sight) Look(stamp uint64, now int64) (since int64) {
	if stamp == v.stamp {
		v.since += min(now-v.looked, int64(mostApart))
	} else {
		v.since = 0
	}
	v.stamp, v.looked = stamp, now
	return v.since
}

// One tells whether one session is slow. It belongs to one goroutine at a time. The zero value says no.
type One struct {
	slow  bool
	quick uint8 // turns in a row that did not need a goroutine, or inline ones, up to fewTurns
	need  uint8 // how many of them it takes since it was taken over the last time
	short uint8 // turns that were taken over and forgiven since then
	last  int64 // when that was, 0 if never
}

// Slow reports whether it is.
func (p *One) Slow() bool { return p.slow }

// Begin is called when the session gets an inline turn.
func (p *One) Begin() {
	if p.quick < fewTurns {
		p.quick++
	}
}

// Lost is called when the session's turn was taken over. One that blocks in one of many turns is served inline as before: the next turn is not
// likely to block, and on a goroutine it would begin later. One whose turns are taken over again and again is left to goroutines for longer and
// longer.
func (p *One) Lost(now int64) {
	need := uint8(0)
	if p.last != 0 && now-p.last < int64(again)*int64(max(p.need, 1)) {
		need = min(max(p.need, 1), mostQuick/fewTurns) * fewTurns
	} else if p.quick < fewTurns {
		need = fewTurns
	}
	*p = One{slow: need > 0, need: need, last: now}
}

// Forgive is called when that turn was short after all: it is as before, but for one in five.
func (p *One) Forgive(before One) {
	if before.short < fewTurns {
		before.short++
		*p = before
	}
}

// Judge looks how long a turn of the session on a goroutine has taken. Where it is free to take its time, as one is whose messages are waited
// for, every turn is quick.
func (p *One) Judge(all *All, isFree bool, began, now int64) {
	if !isFree && now-began >= int64(slowTurn) {
		p.quick = 0
		all.Stay(began, now)
	} else if p.quick++; p.quick >= p.need {
		p.slow, p.quick = false, 0
	}
}
