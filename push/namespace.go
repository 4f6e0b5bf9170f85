package push

import (
	"errors"
	"fmt"
	"time"
)

// MaxPriority is the highest priority of a namespace; 0 is the lowest.
const MaxPriority = 9

// MaxInterval is the largest minimum interval that can be set between two updates of a subscription.
const MaxInterval = 24 * time.Hour

// Mode says which publications a channel keeps.
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

// Delta is an encoding of a publication as the difference to the publication that it replaces. In a stream that is the one before it with the
// same key. In a value or table it is the one that was stored under the key.
type Delta uint8

// The encodings; see package delta.
const (
	NoDelta Delta = iota
	Fossil        // Fossil delta, as the published SDKs apply it; publications that are sent in full are sent as strings too
	Merge         // JSON merge patch (RFC 7396)
)

// Deltas is the number of encodings, without NoDelta.
const Deltas = 2

var deltaNames = [...]string{NoDelta: "none", Fossil: "fossil", Merge: "merge"}

// ParseDelta returns the encoding with a name: fossil or merge.
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

// MarshalText returns the encoding's name.
func (d Delta) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Slow is the policy for a subscription that can no longer be brought up to date, because its client has read too slowly. In a stream,
// publications were evicted before the client got them. In a value or table, remembered removals were evicted, so that the server no longer
// knows which of the client's rows are gone.
type Slow uint8

// The policies.
const (
	SlowAuto        Slow = iota // SlowLose for streams, SlowConflate for values and tables
	SlowConflate                // values and tables only: UnsubscribeInsufficientState ends the subscription, and the client begins afresh
	SlowLose                    // streams only: a client that asks for it is told how many it lost; for other clients like SlowConflate
	SlowUnsubscribe             // the subscription ends with UnsubscribeSlow
	SlowDisconnect              // the connection ends with DisconnectSlow
)

var slowNames = [...]string{
	SlowAuto: "auto", SlowConflate: "conflate", SlowLose: "lose", SlowUnsubscribe: "unsubscribe", SlowDisconnect: "disconnect",
}

// In returns the policy that s means in channels of a mode: SlowAuto is replaced by the mode's default, and other policies are returned as they
// are. If the mode does not have the policy, the error says which one to use.
func (s Slow) In(m Mode) (Slow, error) {
	switch {
	case s == SlowAuto && m == Stream:
		return SlowLose, nil
	case s == SlowAuto:
		return SlowConflate, nil
	case s == SlowConflate && m == Stream:
		return s, errors.New("conflate is not available for streams: use lose, because a publication of a stream replaces no older one")
	case s == SlowLose && m != Stream:
		return s, errors.New("lose is available only for streams: use conflate, because of a value or table only the newest is sent")
	case int(s) >= len(slowNames):
		return s, errors.New("unknown policy: use auto, conflate, lose, unsubscribe or disconnect")
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

// TagLost is the tag that tells a client how many publications of a stream were evicted before the client got them. Only clients that asked for
// it get it. The next publication that the client gets has the tag. Its value is a decimal number, or -1 if the number is unknown.
const TagLost = "sluice.lost"

// TagMore is the tag that tells a client that an answer about a channel's history is not complete. If the client asked for more publications
// than an answer may carry, the last publication in the answer has the tag: there may be more behind it.
const TagMore = "sluice.more"

// History is the retention of a channel. Zero means no bound of that kind. In stream mode all three bounds hold at once, and the oldest
// publications are evicted first. In value and table mode rows stay until they are removed. There Size and Age bound only the remembered
// removals, which tell clients that were away which rows are gone, and Bytes does not apply.
type History struct {
	Size  int           // publications (value and table mode: remembered removals)
	Bytes int64         // as counted by Publication.Size
	Age   time.Duration // since Publication.Time
}
