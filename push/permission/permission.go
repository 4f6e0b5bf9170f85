// Package permission decides what a client may do with a channel. Nothing is permitted unless a rule permits it. The rules, in the order in which
// they are looked at; the first one that says something decides:
//
//	channel       the name is not valid, or its namespace is not configured: refused
//	user-limited  the name has a #, and the client's user is not among those behind it (name#user1,user2): refused
//	private       the name begins with $, or the namespace is private, and the client neither has a subscription token nor, for actions other
//	              than subscribing, is subscribed: refused
//	token         the client subscribes with a subscription token for this channel and its user: permitted
//	user-limited  the client subscribes, and is among the users in the name: permitted
//	namespace     the namespace allows the action to clients of its kind, anonymous or with a user: permitted
//	capability    the first capability of the client's connection token that covers the channel has the action: permitted
//	default       refused
//
// The first three take away, whatever else permits: a namespace that is open to all users opens neither private channels nor those of other users,
// and neither does a capability.
//
// The package is pure: it starts no goroutine, reads no clock and does no I/O.
package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/auth"
)

// Namespace says what clients may do in the channels of a namespace.
type Namespace struct {
	Anonymous push.Actions // clients without a user
	User      push.Actions // clients with one
	Private   bool         // subscribing needs a subscription token
}

// Rules are those of all namespaces, by name. They must not change while Decide is called.
type Rules map[string]Namespace

// Request is what a client wants to do.
type Request struct {
	Channel string
	Action  push.Action
	// User is the client's user; empty for an anonymous client.
	User string
	// Capabilities are those of the client's connection token.
	Capabilities []auth.Capability
	// Token is the subscription token that came with a subscribe command, after it was checked; nil if none did.
	Token *auth.Subscription
	// Subscribed says that the client is subscribed to the channel.
	Subscribed bool
}

// Rule is the rule that decides.
type Rule uint8

// The rules.
const (
	ByDefault Rule = iota
	ByChannel
	ByUserLimit
	ByPrivate
	ByToken
	ByNamespace
	ByCapability
)

var ruleNames = [...]string{
	ByDefault: "default", ByChannel: "channel", ByUserLimit: "user-limited", ByPrivate: "private", ByToken: "token", ByNamespace: "namespace",
	ByCapability: "capability",
}

// String returns the rule's name, for instance user-limited.
func (r Rule) String() string {
	if int(r) < len(ruleNames) {
		return ruleNames[r]
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// Decide returns nil if a request is permitted, otherwise the answer to the client: push.ErrPermissionDenied, push.ErrUnknownChannel or
// push.ErrBadRequest, which tells a client no more than that. rule is the one that decides; [Rules.Explain] has it in words.
func (rules Rules) Decide(r *Request) (rule Rule, err error) {
	if err := push.CheckChannel(r.Channel); err != nil {
		return ByChannel, push.ErrBadRequest.WithMessage("%v", err)
	}
	ns, ok := rules[push.Namespace(r.Channel)]
	users, isLimited := usersOf(r.Channel)
	switch {
	case !ok:
		return ByChannel, push.UnknownChannel(r.Channel)
	case isLimited && !isListed(users, r.User):
		return ByUserLimit, push.ErrPermissionDenied
	case r.Token != nil && (r.Token.Channel != r.Channel || r.Token.User != r.User):
		return ByToken, push.ErrPermissionDenied
	case r.isWithoutRight(ns):
		return ByPrivate, push.ErrPermissionDenied
	case r.Action == push.ActionSubscribe && r.Token != nil:
		return ByToken, nil
	case r.Action == push.ActionSubscribe && isLimited:
		return ByUserLimit, nil
	case ns.allowed(r.User).Has(r.Action):
		return ByNamespace, nil
	}
	if c := auth.Covering(r.Capabilities, r.Channel); c != nil && c.Actions.Has(r.Action) {
		return ByCapability, nil
	}
	return ByDefault, push.ErrPermissionDenied
}

// allowed returns what a client may do.
func (n Namespace) allowed(user string) push.Actions {
	if user == "" {
		return n.Anonymous
	}
	return n.User
}

// isWithoutRight reports whether the channel is private and the client has no right to it.
func (r *Request) isWithoutRight(ns Namespace) bool {
	switch {
	case !ns.Private && !IsPrivate(r.Channel):
		return false
	case r.Action == push.ActionSubscribe:
		return r.Token == nil
	default:
		return !r.Subscribed
	}
}

// IsPrivate reports whether a channel is private by its name: it begins with $.
func IsPrivate(channel string) bool { return strings.HasPrefix(channel, push.PrivatePrefix) }

// usersOf returns the users to whom a channel's name limits it.
func usersOf(channel string) (users string, ok bool) {
	_, users, ok = strings.Cut(channel, "#")
	return users, ok
}

// isListed reports whether a user is in a list with commas between. The anonymous one is in none.
func isListed(users, user string) bool {
	return user != "" && slices.Contains(strings.Split(users, ","), user)
}
