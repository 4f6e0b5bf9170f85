package admission

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/logsample"
)

// Name is the name of a limit: its key below limits in the configuration.
type Name string

// The limits that can run dry. The others cannot: write_timeout, which ends connections, because each transport enforces it by deadlines of its own;
// send_buffer, the size of a buffer; and bandwidth, to which deliveries are shaped.
const (
	Sessions           Name = "sessions"             // clients of the node
	SessionsPerAddress Name = "sessions_per_address" // clients of one address
	SessionsPerUser    Name = "sessions_per_user"    // clients of one user on this node
	Connects           Name = "connects"             // connects a second of the node
	ConnectsPerAddress Name = "connects_per_address" // connects a second of one address
	CommandsPerSession Name = "commands_per_session" // commands a second of one client
	CommandsPerAddress Name = "commands_per_address" // commands a second of one address
	BytesPerSession    Name = "bytes_per_session"    // bytes a second from one client
	MessageBytes       Name = "message_bytes"        // bytes of one command
	Subscriptions      Name = "subscriptions_per_session"
	TokenChecks        Name = "token_checks" // tokens that are checked at the same time
	Backlog            Name = "backlog"      // bytes that wait for all clients
)

// Names returns the names of all limits.
func Names() []Name {
	return []Name{
		Sessions, SessionsPerAddress, SessionsPerUser, Connects, ConnectsPerAddress, CommandsPerSession, CommandsPerAddress, BytesPerSession,
		MessageBytes, Subscriptions, TokenChecks, Backlog,
	}
}

// Limits counts how often each limit was exceeded, and knows which limits are enforced. Its methods may be called concurrently.
type Limits struct {
	log *slog.Logger
	all map[Name]*limit // complete and constant
}

// limit is the state of one limit.
type limit struct {
	dry      bool
	exceeded atomic.Uint64
	warning  logsample.Warning
}

// NewLimits returns limits of which those in dry are not enforced. Names that do not exist have no effect. A nil log discards.
func NewLimits(log *slog.Logger, dry ...Name) *Limits {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Limits{log: log, all: map[Name]*limit{}}
	for _, n := range Names() {
		l.all[n] = &limit{dry: slices.Contains(dry, n)}
	}
	return l
}

// Enforced reports whether a limit is enforced. It panics if there is no limit with that name.
func (l *Limits) Enforced(n Name) bool { return !l.all[n].dry }

// Exceeded counts that a limit was exceeded, and reports whether the limit is enforced. details are attributes for the log, as in [slog.Logger.Info];
// of each limit, one record is written in five seconds. Exceeded panics if there is no limit with that name.
func (l *Limits) Exceeded(n Name, details ...any) (enforced bool) {
	one := l.all[n]
	total := one.exceeded.Add(1)
	if one.warning.Due(time.Now()) {
		l.log.With(details...).Info("limit exceeded", "limit", "limits."+string(n), "enforced", !one.dry, "total", total)
	}
	return !one.dry
}

// Count is how often a limit was exceeded.
type Count struct {
	Name     Name
	Enforced bool
	Exceeded uint64
}

// Counts returns the counts of all limits, in the order of [Names].
func (l *Limits) Counts() []Count {
	var out []Count
	for _, n := range Names() {
		one := l.all[n]
		out = append(out, Count{n, !one.dry, one.exceeded.Load()})
	}
	return out
}
