package session

import (
	"sync/atomic"
	"time"
)

// When handlers block. A session whose turn was taken over, because its handler held up an event loop or the reader of a socket, is slow:
// its turns are given to goroutines until a number of them in a row was quick. When many were taken over within a short time that holds for
// all sessions of the server's loops, or of the socket.
const (
	slowCount  = 8                      // as many take-overs
	slowWindow = 100 * time.Millisecond // within so long make all sessions slow,
	slowFor    = time.Second            // until no turn was slow for so long
	slowTurn   = time.Millisecond       // that is, took so long
	quickTurns = 64                     // a slow session gets inline turns again after so many quick ones
)

// slowness tells whether all sessions are slow.
type slowness struct {
	until  atomic.Int64 // they are until then
	window atomic.Int64 // when take-overs began to be counted
	taken  atomic.Int32 // how many there were since
}

func (w *slowness) slow(now int64) bool { return now < w.until.Load() }

// tookOver counts a take-over.
func (w *slowness) tookOver(now int64) {
	if now-w.window.Load() > int64(slowWindow) {
		w.window.Store(now)
		w.taken.Store(0)
	}
	if w.taken.Add(1) >= slowCount {
		w.until.Store(now + int64(slowFor))
	}
}

// stay extends the time if it was not over when a turn began that took long.
func (w *slowness) stay(began, now int64) {
	if w.until.Load() > began {
		w.until.Store(now + int64(slowFor))
	}
}

// pace tells whether one session is slow.
type pace struct {
	slow  bool
	quick uint8 // turns in a row that did not need a goroutine
}

// lost is called when the session's turn was taken over.
func (p *pace) lost() { *p = pace{slow: true} }

// judge looks how long a turn of the session s on a goroutine has taken. The mutex of s is held.
func (p *pace) judge(s *Session, all *slowness, began, now int64) {
	if s.pull == nil && now-began >= int64(slowTurn) {
		p.quick = 0
		all.stay(began, now)
	} else if p.quick++; p.quick >= quickTurns {
		*p = pace{}
	}
}
