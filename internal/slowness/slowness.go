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
	slowCount  = 3                    // as many take-overs
	slowWindow = time.Second          // within so long make all sessions slow,
	slowFor    = 2 * time.Second      // until there were not as many for so long
	slowTurn   = time.Millisecond     // a turn on a goroutine that took so long counts as well
	mostApart  = 2 * time.Millisecond // two looks count for at most so much
	fewTurns   = 4                    // a session is slow when it was taken over in one of so many turns, or within
	again      = 2 * time.Second      // so long after the time before, times the quick turns in a row that it took to be forgiven then:
	mostQuick  = 128                  // four, and four times as many each time, up to so many
)

// All tells whether all sessions are slow. It may be used concurrently. The zero value says no.
type All struct {
	until  atomic.Int64 // they are until then
	window atomic.Int64 // when take-overs began to be counted
	taken  atomic.Int32 // how many there were since
}

// Slow reports whether they are.
func (w *All) Slow(now int64) bool { return now < w.until.Load() }

// TookOver counts a take-over.
func (w *All) TookOver(now int64) {
	if now-w.window.Load() > int64(slowWindow) {
		w.window.Store(now)
		w.taken.Store(0)
	}
	if w.taken.Add(1) >= slowCount {
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

// Judge looks how long a turn of the session on a goroutine has taken. A long one is as good as one that was taken over; but a session that is
// slow by itself says nothing of others. Where it is free to take its time, as one is whose messages are waited for, every turn is quick.
func (p *One) Judge(all *All, isFree bool, began, now int64) {
	long := !isFree && now-began >= int64(slowTurn)
	switch {
	case !p.slow && long:
		p.Lost(now)
		all.TookOver(now)
	case !p.slow:
		p.Begin()
	case long:
		p.quick = 0
	default:
		if p.quick++; p.quick >= p.need {
			p.slow, p.quick = false, 0
		}
	}
}
