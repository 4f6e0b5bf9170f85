// Package slowness remembers whose handlers block. A session whose turn was taken over, because its handler held up an event loop or the
// reader of a socket, is slow: its turns are given to goroutines until a number of them in a row was quick. When many were taken over within a
// short time that holds for all sessions of the server's loops, or of the socket. Times are nanoseconds of any clock that does not go back.
package slowness

import (
	"sync/atomic"
	"time"
)

const (
	slowCount  = 8                      // as many take-overs
	slowWindow = 100 * time.Millisecond // within so long make all sessions slow,
	slowFor    = time.Second            // until no turn was slow for so long
	slowTurn   = time.Millisecond       // that is, took so long
	quickTurns = 64                     // a slow session gets inline turns again after so many quick ones
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
		w.until.Store(now + int64(slowFor))
	}
}

// Stay extends the time if it was not over when a turn began that took long.
func (w *All) Stay(began, now int64) {
	if w.until.Load() > began {
		w.until.Store(now + int64(slowFor))
	}
}

// One tells whether one session is slow. It belongs to one goroutine at a time. The zero value says no.
type One struct {
	slow  bool
	quick uint8 // turns in a row that did not need a goroutine
}

// Slow reports whether it is.
func (p *One) Slow() bool { return p.slow }

// Lost is called when the session's turn was taken over.
func (p *One) Lost() { *p = One{slow: true} }

// Judge looks how long a turn of the session on a goroutine has taken. Where it is free to take its time, as one is whose messages are waited
// for, every turn is quick.
func (p *One) Judge(all *All, isFree bool, began, now int64) {
	if !isFree && now-began >= int64(slowTurn) {
		p.quick = 0
		all.Stay(began, now)
	} else if p.quick++; p.quick >= quickTurns {
		*p = One{}
	}
}
