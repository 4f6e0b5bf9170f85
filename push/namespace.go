package push

import (
	"fmt"
	"time"
)

// MaxPriority is the highest priority of a namespace; 0 is the lowest.
const MaxPriority = 9

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

// History bounds what a channel keeps; zero means no bound of that kind. In stream mode all three bounds hold at once and the
// oldest publications go first. In value and table mode rows stay until they are removed: there Size and Age bound only the removals
// that are remembered, so that clients that were away can still learn of them, and Bytes does not apply.
type History struct {
	Size  int           // publications (value and table mode: remembered removals)
	Bytes int64         // as counted by Publication.Size
	Age   time.Duration // since Publication.Time
}
