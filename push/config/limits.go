package config

import "fmt"

// frameMost is what a message of many commands may be where a client may have any number of subscriptions.
const frameMost = 16 << 20

// FrameBytes is how long a message of many commands of a client may be: long enough for the SDKs to subscribe again, in one message, to as many
// channels as they may be subscribed to. It is more than MessageBytes, so that a client whose command is a little too long is told so and not cut.
func (l Limits) FrameBytes() int {
	const (
		each = 1 << 10  // a command to subscribe, with the longest names
		room = 64 << 10 // by which a command may be too long without a cut
	)
	all := l.SubscriptionsPerSession
	if all == 0 || all > frameMost/each {
		all = frameMost / each
	}
	return max(int(l.MessageBytes)+room, all*each)
}

// Warnings says what is allowed and cannot be meant: limits that keep each other from being used.
func (c *Config) Warnings() []string {
	var out []string
	l := c.Limits
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if n, subs := 10*l.CommandsPerSession, l.SubscriptionsPerSession; n > 0 && (subs == 0 || subs >= n) {
		warn("limits.commands_per_session: %d a second are %d at once, with which a client cannot subscribe again to as many channels as "+
			"limits.subscriptions_per_session allows", l.CommandsPerSession, n)
	}
	if l.CommandsPerAddress > 0 && (l.CommandsPerSession == 0 || l.CommandsPerSession > l.CommandsPerAddress) {
		warn("limits.commands_per_address: one client may send more than all of an address together (limits.commands_per_session)")
	}
	if l.Sessions > 0 && l.SessionsPerAddress > l.Sessions {
		warn("limits.sessions_per_address: more than limits.sessions, which is for all addresses together")
	}
	if l.Bandwidth > 0 && l.Bandwidth < l.MessageBytes/10 {
		warn("limits.bandwidth: a publication of limits.message_bytes takes a client more than ten seconds")
	}
	return out
}
