package load

import (
	"time"

	"github.com/sluice-push/sluice/bench/internal/measure"
)

// Work is what a client does.
type Work struct {
	Name     string // of the cell
	Proto    string // what the client calls the protocol
	Kind     Kind
	Size     int // of what is sent, in bytes
	Conns    int
	InFlight int           // on each connection, when Rate is 0; for Open, connections at a time
	Rate     int           // messages a second in all; 0: as fast as answers come
	Sleep    time.Duration // for how long a handler sleeps
	Every    int           // one in so many does; 0: none
	Count    int           // messages on each connection, for Fixed
	Args     Args
}

// Args are the arguments of servers: of the limit, and what those in Go get besides their name.
type Args struct {
	Limit, Go []string
}

// Kind is what is repeated.
type Kind int

// The kinds.
const (
	Echo      Kind = iota // a message and its answer
	Broadcast             // a message on the first connection that comes back on all
	Open                  // a connection that is upgraded and closed
)

// Load is what the client says of a run.
type Load struct {
	Messages int64             `json:"messages"` // answered
	NS       int64             `json:"ns"`       // how long it took until the last answer
	All      measure.Histogram `json:"all"`      // of all messages
	Others   measure.Histogram `json:"others"`   // of those whose handler did not sleep; of broadcasts, until the last connection had one
}
