package push

import (
	"errors"
	"fmt"
	"time"
)

// MaxPriority is the highest priority of a namespace; 0 is the lowest.
const MaxPriority = 9

// MaxInterval is the longest of the shortest times between two services of a subscription that can be asked for.
const MaxInterval = 24 * time.Hour

// Mode says what a channel keeps.
type Mode uint8

// The modes.
const (
	Stream Mode = iota // every publication, as long as [History] allows
	Value              // the newest publication only
	Table              // the newest publication of each key
)

var modeNames = [...]string{Stream: "stream", Value: "value", Table: "table"}

// String returns the name used in configuration: stream, value or table.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// UnmarshalText accepts stream, value and table.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if string(text) == name {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("unknown mode %q: use stream, value or table", text)
}

// MarshalText returns the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Delta is a form in which a publication can be said as the difference to the one that it replaces: in a stream the one before, otherwise
// the one that was there, each with the same key.
type Delta uint8

// The forms; see package delta.
const (
	NoDelta Delta = iota
	Fossil        // Fossil delta, as the published SDKs apply it; publications that go in full go as strings too
	Merge         // JSON merge patch (RFC 7396)
)

// Deltas is how many forms there are, without NoDelta.
const Deltas = 2

var deltaNames = [...]string{NoDelta: "none", Fossil: "fossil", Merge: "merge"}

// ParseDelta returns the form of a name: fossil or merge.
func ParseDelta(name string) (Delta, bool) {
	for d := Fossil; int(d) < len(deltaNames); d++ {
		if deltaNames[d] == name {
			return d, true
		}
	}
	return NoDelta, false
}

// String returns the name used in configuration and in the client protocol: fossil or merge, for NoDelta none.
func (d Delta) String() string {
	if int(d) < len(deltaNames) {
		return deltaNames[d]
	}
	return fmt.Sprintf("delta(%d)", uint8(d))
}

// UnmarshalText accepts fossil and merge.
func (d *Delta) UnmarshalText(text []byte) error {
	parsed, ok := ParseDelta(string(text))
	if !ok {
		return fmt.Errorf("unknown delta %q: use fossil or merge", text)
	}
	*d = parsed
	return nil
}

// MarshalText returns the form's name.
func (d Delta) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Slow says what becomes of a subscription that can no longer be told everything it should be, because its client took too little for too
// long: of a stream, publications were forgotten before it got them; of a value or table, removals were, so that nobody can say any more
// which rows of the client's have gone.
type Slow uint8

// The policies.
const (
	SlowAuto        Slow = iota // SlowLose for streams, SlowConflate for values and tables
	SlowConflate                // values and tables only: the subscription ends with UnsubscribeInsufficientState and begins afresh
	SlowLose                    // streams only: a client that wants it is told how many it lost; for others as SlowConflate
	SlowUnsubscribe             // the subscription ends with UnsubscribeSlow
	SlowDisconnect              // the connection ends with DisconnectSlow
)

var slowNames = [...]string{
	SlowAuto: "auto", SlowConflate: "conflate", SlowLose: "lose", SlowUnsubscribe: "unsubscribe", SlowDisconnect: "disconnect",
}

// In returns the policy that holds in channels of a mode: what SlowAuto means there, otherwise s. The error says that the mode has no such
// policy, and which to use.
func (s Slow) In(m Mode) (Slow, error) {
	switch {
	case s == SlowAuto && m == Stream:
		return SlowLose, nil
	case s == SlowAuto:
		return SlowConflate, nil
	case s == SlowConflate && m == Stream:
		return s, errors.New("conflate is for values and tables: nothing in a stream takes the place of what was before it (use lose)")
	case s == SlowLose && m != Stream:
		return s, errors.New("lose is for streams: of a value or table only the newest is sent, so nothing is lost (use conflate)")
	case int(s) >= len(slowNames):
		return s, errors.New("unknown policy (use auto, conflate, lose, unsubscribe or disconnect)")
	}
	return s, nil
}

// String returns the name used in configuration: auto, conflate, lose, unsubscribe or disconnect.
func (s Slow) String() string {
	if int(s) < len(slowNames) {
		return slowNames[s]
	}
	return fmt.Sprintf("slow(%d)", uint8(s))
}

// UnmarshalText accepts auto, conflate, lose, unsubscribe and disconnect.
func (s *Slow) UnmarshalText(text []byte) error {
	for i, name := range slowNames {
		if string(text) == name {
			*s = Slow(i)
			return nil
		}
	}
	return fmt.Errorf("unknown policy %q: use auto, conflate, lose, unsubscribe or disconnect", text)
}

// MarshalText returns the policy's name.
func (s Slow) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// TagLost is the tag with which a client that wants to know is told that publications of a stream were forgotten before it got them: it is
// on the next one it gets, and says how many there were, as a decimal number, or -1 when nobody knows.
const TagLost = "sluice.lost"

// TagMore is the tag of the last publication in an answer to a client that asked for more of a channel's history than an answer may carry: there may
// be more behind it.
const TagMore = "sluice.more"

// History bounds what a channel keeps; zero means no bound of that kind. In stream mode all three bounds hold at once and the
// oldest publications go first. In value and table mode rows stay until they are removed: there Size and Age bound only the removals
// that are remembered, so that clients that were away can still learn of them, and Bytes does not apply.
type History struct {
	Size  int           // publications (value and table mode: remembered removals)
	Bytes int64         // as counted by Publication.Size
	Age   time.Duration // since Publication.Time
}
