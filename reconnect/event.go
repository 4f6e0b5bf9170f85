package reconnect

import (
	"fmt"
	"time"

	"github.com/sluice-push/sluice/session"
)

// State is the state of a slot. The package comment describes the states and their order.
type State uint8

// The states of a slot. Closed and Failed are final.
const (
	Connecting State = iota + 1 // its session is being dialed, opened and resumed
	Open                        // its session may be picked
	BackingOff                  // waiting for the next attempt
	Draining                    // its session is not picked any more, and ends when its leases are released and Drain has ended it
	Closed                      // the pool has ended the slot
	Failed                      // the slot has given up
)

var stateNames = [...]string{
	Connecting: "connecting", Open: "open", BackingOff: "backing off", Draining: "draining", Closed: "closed", Failed: "failed",
}

// String returns the name of the state, for logs.
func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// last reports whether the state is final.
func (s State) last() bool { return s == Closed || s == Failed }

// Event is a change of a slot's state, the argument of [Options].State.
type Event struct {
	Slot    int    // the slot's number: from 0 on, never reused
	State   State  // the new state
	Address string // the address of its session; for BackingOff the address of the next attempt

	// Session is the session that is Open or Draining, or was until this change; nil if none was open.
	Session *session.Session
	// Attempt is the number of attempts that have failed in a row; 0 after the end of a session that had stayed open for Options.StableAfter.
	Attempt int
	// Delay is the time that a slot waits in BackingOff.
	Delay time.Duration
	// Err is the reason for BackingOff or Failed: the error of dialing or of Resume, a *[session.PanicError], or the reason why the session
	// ended. For Draining and Closed it is [ErrClosed] or [ErrRetired]; for the others it is nil.
	Err error
}

// Stats are the present numbers of slots of a pool by state, and its counters since it was made.
type Stats struct {
	Open       int // sessions that may be picked
	Connecting int // slots that dial, open or resume a session
	BackingOff int // slots that wait for the next attempt
	Draining   int // sessions that drain; not more than there are other slots
	Failed     int // slots that gave up
	Pending    int // leases that have not been released

	Dials      uint64 // attempts to connect
	Failures   uint64 // attempts that did not lead to an open session
	Opened     uint64 // sessions that became open
	Reconnects uint64 // sessions that became open in a slot that had an open session before
	Panics     uint64 // panics in functions of the options
}
