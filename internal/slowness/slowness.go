// Package slowness remembers whose handlers block. A session whose turn was taken over, because its handler held up an event loop or the reader
// of a socket, is slow when that is no exception: its turns are given to goroutines until a number of them in a row was quick. When many were
// taken over within a short time that holds for all sessions of the server's loops, or of the socket. Times are nanoseconds of any clock that does
// not go back.
package slowness

import (
	"sync/atomic"
	"time"
)

const (
	slowFor   = 2 * time.Second      // all sessions are slow until there were not as many take-overs for so long,
	oneIn     = 4096                 // or fewer than one in so many turns on goroutines: on a busy machine some take long for want of a processor
	slowTurn  = time.Millisecond     // a turn on a goroutine that took so long is long
	mostApart = 2 * time.Millisecond // two looks count for at most so much
	fewTurns  = 4                    // a session is slow when it was taken over in one of so many turns, or within
	again     = 2 * time.Second      // so long after the time before, times the quick turns in a row that it took to be forgiven then:
	mostQuick = 128                  // four, and four times as many each time, up to so many, and then for as long as all are
)

// All tells whether all sessions are slow. It may be used concurrently.
type All struct {
	Count  int32         // as many take-overs
	Within time.Duration // within so long make them slow; both are set before it is used

	until  atomic.Int64  // they are until then
	window atomic.Int64  // when take-overs began to be counted
	taken  atomic.Int32  // how many there were since
	turns  atomic.Uint64 // and how many turns on goroutines before
}

// Slow reports whether they are.
func (w *All) Slow(now int64) bool { return now < w.until.Load() }

// TookOver counts a take-over, or a turn on a goroutine that would have been one. Turns is how many turns there were on goroutines so far.
func (w *All) TookOver(now int64, turns uint64) {
	if now-w.window.Load() > int64(w.Within) {
		w.window.Store(now)
		w.taken.Store(0)
		w.turns.Store(turns)
	}
	if n := w.taken.Add(1); n >= w.Count && int64(n)*oneIn >= int64(turns-w.turns.Load()) { //nolint:gosec // it is not that much
		w.until.Store(max(now+int64(slowFor), w.until.Load()))
	}
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
	quick uint8 // turns in a row that did not need a goroutine; up to fewTurns while it is not slow
	need  uint8 // how many of them it takes since it was taken over the last time
	last  int64 // when that was, 0 if never
}

// Slow reports whether it is.
func (p *One) Slow() bool { return p.slow }

// Begin is called for each turn of a session that is not slow.
func (p *One) Begin() {
	if p.quick < fewTurns {
		p.quick++
	}
}

// Lost is called when the session's turn was taken over, or would have been. One that blocks in one of many turns is served inline as before: the
// next turn is not likely to block, and on a goroutine it would begin later. One whose turns are taken over again and again is left to goroutines
// for longer and longer.
func (p *One) Lost(now int64) {
	need := uint8(0)
	if p.last != 0 && now-p.last < int64(again)*int64(max(p.need, 1)) {
		need = min(max(p.need, 1), mostQuick/fewTurns) * fewTurns
	} else if p.quick < fewTurns {
		need = fewTurns
	}
	*p = One{slow: need > 0, need: need, last: now}
}

// IsNews reports whether to be taken over now tells something of others: the turns of one that was shortly before tell of itself.
func (p *One) IsNews(all *All, now int64) bool { return p.last == 0 || now-p.last > int64(all.Within) }

// Judge looks how long a turn of the session on a goroutine has taken, and reports whether that is as good as a take-over that is news. Where a
// session is free to take its time, as one is whose messages are waited for, every turn is quick. A turn that began while not all sessions were slow
// was a goroutine's for another reason than others, and is none of their business.
func (p *One) Judge(all *All, isFree bool, began, now int64) (counts bool) {
	long := !isFree && now-began >= int64(slowTurn)
	switch {
	case !p.slow:
		if p.Begin(); long {
			counts = p.IsNews(all, now) && all.Slow(began)
			p.Lost(now)
		}
	case long:
		p.quick, p.last = 0, now
	default:
		p.quick = min(p.quick+1, mostQuick)
		if p.quick >= p.need && (p.need < mostQuick || now-p.last >= int64(slowFor)) {
			p.slow, p.quick = false, 0
		}
	}
	return counts
}
