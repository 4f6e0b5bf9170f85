package reconnect

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/session"
)

// State is where a slot is in its life: see the package comment.
type State uint8

// The states of a slot. Closed and Failed are the last.
const (
	Connecting State = iota + 1 // being dialed, opened and resumed
	Open                        // may be picked
	BackingOff                  // waiting for the next attempt
	Draining                    // not picked any more, and ends when its leases are released and it has said goodbye
	Closed                      // ended by the pool
	Failed                      // given up
)

var stateNames = [...]string{
	Connecting: "connecting", Open: "open", BackingOff: "backing off", Draining: "draining", Closed: "closed", Failed: "failed",
}

// String returns a word for logs.
func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// last reports whether nothing comes after it.
func (s State) last() bool { return s == Closed || s == Failed }

// Event is a change of a slot, as [Options].State is told.
type Event struct {
	Slot    int    // the slot's number: from 0 on, never used again
	State   State  // where it is now
	Address string // where its session goes; for BackingOff where it goes next

	// Session is the one that is Open or Draining, or was until now; nil if none was open.
	Session *session.Session
	// Attempt is how many attempts have failed in a row; 0 after the end of a session that had proved itself.
	Attempt int
	// Delay is how long a slot that is BackingOff waits.
	Delay time.Duration
	// Err is why a slot is BackingOff or Failed: what dialing or Resume returned, a *[session.PanicError], or how the session ended. It is
	// [ErrClosed] or [ErrRetired] for Draining and Closed, nil for the others.
	Err error
}

// Stats are the slots of a pool by state, now, and its counters since it was made.
type Stats struct {
	Open       int // sessions that may be picked
	Connecting int // slots that dial or resume
	BackingOff int // slots that wait for an attempt
	Draining   int // sessions that end gently; not more than there are slots otherwise
	Failed     int // slots that gave up
	Pending    int // leases that are not released

	Dials      uint64 // attempts to connect
	Failures   uint64 // attempts that led to no open session
	Opened     uint64 // sessions that were open
	Reconnects uint64 // those of them that took the place of one that was open before
	Panics     uint64 // panics in functions of the options
}
