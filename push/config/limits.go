package config

import (
	"fmt"
	"slices"

	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/cluster"
)

// frameMost is the largest message of several commands if the number of a client's subscriptions has no limit.
const frameMost = 16 << 20

// FrameBytes is the largest message of several commands from a client, in bytes. It is large enough for SDKs to renew all allowed subscriptions
// in one message. It is larger than MessageBytes, so that a client whose command is a little too long gets an error instead of a closed
// connection. It holds for commands where message_bytes runs dry.
func (l Limits) FrameBytes() int {
	const (
		each = 1 << 10  // bytes of a subscribe command with the longest names
		room = 64 << 10 // by how many bytes a command may be too long before the connection is closed
	)
	all := l.SubscriptionsPerSession
	if all == 0 || all > frameMost/each || slices.Contains(l.Dry, admission.Subscriptions) {
		all = frameMost / each
	}
	return max(int(l.MessageBytes)+room, all*each)
}

// MostMessageBytes is how long a message can be: MessageBytes, or more if message_bytes runs dry.
func (l Limits) MostMessageBytes() int {
	if slices.Contains(l.Dry, admission.MessageBytes) {
		return l.FrameBytes()
	}
	return int(l.MessageBytes)
}

// Warnings describes settings that are valid but cannot be intended, such as a limit that makes another one unreachable.
func (c *Config) Warnings() []string {
	var out []string
	l := c.Limits
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if n, subs := 10*l.CommandsPerSession, l.SubscriptionsPerSession; n > 0 && (subs == 0 || subs >= n) {
		warn("limits.commands_per_session: %d per second allow a burst of %d, too few to resubscribe to as many channels as "+
			"limits.subscriptions_per_session allows", l.CommandsPerSession, n)
	}
	if l.CommandsPerAddress > 0 && (l.CommandsPerSession == 0 || l.CommandsPerSession > l.CommandsPerAddress) {
		warn("limits.commands_per_address: lower than limits.commands_per_session, so one client may send more than its whole address")
	}
	if l.Sessions > 0 && l.SessionsPerAddress > l.Sessions {
		warn("limits.sessions_per_address: higher than limits.sessions, which is for all addresses together")
	}
	if l.Connects > 0 && l.ConnectsPerAddress > l.Connects {
		warn("limits.connects_per_address: higher than limits.connects, which is for all addresses together")
	}
	if l.Bandwidth > 0 && l.Bandwidth < l.MessageBytes/10 {
		warn("limits.bandwidth: sending a publication of limits.message_bytes takes more than ten seconds")
	}
	if c.Role == cluster.Hub && (c.Broker.Kind == BrokerMemory || c.Broker.NATS.URL == "") {
		warn("broker: this hub has a broker of its own, so no other hub of the cluster has its publications: set broker.nats.url if there are several")
	}
	return out
}
