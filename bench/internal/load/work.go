package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-push/sluice/bench/internal/measure"
)

// Work is what a client does.
type Work struct {
	Name     string            // of the cell
	Proto    string            // what the client calls the protocol
	Protos   map[string]string // the same of servers that speak something else, by name
	Client   []string          // more arguments of the client
	Pinned   bool              // the server has a processor for itself, and the client another one if there is one
	Kind     Kind
	Size     int // of what is sent, in bytes
	Conns    int
	InFlight int           // on each connection, when Rate is 0; for Open, connections at a time; for Push, publications
	Rate     int           // messages a second in all; 0: as fast as answers come
	Sleep    time.Duration // for how long a handler sleeps
	Every    int           // one in so many does; 0: none
	Count    int           // messages on each connection, for Fixed
	Warm     time.Duration // for how long it is done before anything is measured; 0: a quarter of the time, and at most a second
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
	Push                  // a publication on a connection of its own that goes to all that are subscribed to its channel
)

// Load is what the client says of a run.
type Load struct {
	Messages int64             `json:"messages"` // answered; for Push, deliveries
	NS       int64             `json:"ns"`       // how long it took until the last answer
	All      measure.Histogram `json:"all"`      // of all messages
	Others   measure.Histogram `json:"others"`   // of those whose handler did not sleep; of broadcasts and Push, until the last connection had one

	Lost       int64 `json:"lost"` // these three for Push: deliveries that did not come, came twice, or too late
	Doubled    int64 `json:"doubled"`
	Disordered int64 `json:"disordered"`

	Back   int64 `json:"back"`   // these two for Pair.Storm: nanoseconds from the cut until all connections were back
	Caught int64 `json:"caught"` // and until they had all they had missed
}

// Wrong is an error if anything did not arrive once and in order.
func (l *Load) Wrong() error {
	if l.Lost+l.Doubled+l.Disordered == 0 {
		return nil
	}
	return fmt.Errorf("besides %d deliveries %d were lost, %d came twice, %d out of order", l.Messages, l.Lost, l.Doubled, l.Disordered)
}

// proto is what the client calls the protocol of a server.
func (w *Work) proto(server string) string {
	if p, ok := w.Protos[strings.TrimSuffix(server, AtBefore)]; ok {
		return p
	}
	return w.Proto
}
