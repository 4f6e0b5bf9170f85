package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/internal/rendezvous"
	"github.com/sluice-push/sluice/push"
)

// Policy says by what the gateways that rules leave for a client are ordered.
type Policy uint8

// The policies.
const (
	// LeastLoaded looks at two gateways, chosen at random by weight, and takes the one with fewer sessions for its weight.
	LeastLoaded Policy = iota
	// ByUser takes the gateway with the best hash for the user, unless it has more than Rules.Bound times its fair share of sessions: then the next.
	ByUser
	// ByChannel does the same for the client's group of channels, so that few gateways need the channels of a group.
	ByChannel
)

var policyNames = [...]string{LeastLoaded: "least_loaded", ByUser: "user", ByChannel: "channel"}

// String returns the name used in configuration: least_loaded, user or channel.
func (p Policy) String() string { return nameOf(policyNames[:], p, "route policy") }

// UnmarshalText accepts least_loaded, user and channel.
func (p *Policy) UnmarshalText(text []byte) error {
	return parse(p, policyNames[:], text, "route policy")
}

// MarshalText returns the policy's name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Rules say which gateways clients get. The zero value is LeastLoaded among all gateways.
type Rules struct {
	// Require are hard: a client never gets a gateway that one of them excludes. All that are for the client apply.
	Require []Require
	// Canary sends a share of the users to some gateways, and all other users to the other gateways; nil: none.
	Canary *Canary
	// Prefer order gateways by labels, such as the zone. The first that is for the client applies.
	Prefer []Prefer
	// Policy orders the gateways among which the rules above make no difference.
	Policy Policy
	// Groups are groups of channels, for ByChannel. The first with a pattern that matches a channel applies. A channel of no group belongs to that of
	// its namespace.
	Groups []Group
	// Bound is how many times its fair share of sessions a gateway may have before clients get the next one by hash; default 1.25. Negative: no bound.
	Bound float64
	// Addresses is how many gateways a client is told, at most [MaxAddresses]; default 3.
	Addresses int
}

// When says which clients a rule is for. All conditions must hold; the zero value is for all clients.
type When struct {
	// Prefixes are networks. The client's address has to be in one of them.
	Prefixes []netip.Prefix
	// Claims are claims of the client's token and their values. An empty value means that the token must not have the claim.
	Claims map[string]string
}

// Require is a rule for the labels of gateways. A value {NAME} stands for the claim of that name. If the client does not have the claim, the gateway
// must not have the label.
type Require struct {
	Name   string // for explanations and errors
	When   When
	Labels Labels
}

// Prefer is an order of gateways by labels. A value {NAME} stands for the claim of that name. Labels with a claim that the client does not have are
// passed over, and if none are left, the rule is not for the client.
type Prefer struct {
	Name  string // for explanations and errors
	When  When
	Order []Labels // the most preferred first, at most [MaxOrder]; after them come all other gateways
}

// Canary sends a share of the users to gateways with given labels. A hash of the user decides, so a user stays in the canary or outside while the
// name and the share stay. If the share grows, users only come into the canary. Clients without a user are never in it.
//
// If the gateways of one side are full or draining, or there are none, clients get those of the other side.
type Canary struct {
	Name   string  // part of the hash: a canary with another name has other users
	Share  float64 // 0 to 1
	Labels Labels  // what the gateways for users in the canary have
}

// Group is a group of channels whose clients belong together.
type Group struct {
	Name string
	// Channels are names or patterns, in which each * stands for any number of characters.
	Channels []string
}

// Limits of rules.
const (
	DefaultBound     = 1.25
	MaxBound         = 100
	DefaultAddresses = 3
	MaxAddresses     = 16
	// MaxOrder is how many preferences a rule may have.
	MaxOrder = 15
	// MaxRules is how many rules of one kind there may be.
	MaxRules = 1000
)

// Client is what is known of a client for which a gateway is chosen.
type Client struct {
	// User is the user's ID. For anonymous clients it may be that of the device. If it is empty, ByUser is like LeastLoaded.
	User string
	// Addr is the address from which the client connects; the zero value is in no prefix.
	Addr netip.Addr
	// Claims are those of the client's token that rules may ask for, such as tier and zone. The token must have been verified.
	Claims map[string]string
	// Channel is the channel that the client mainly wants, for ByChannel. If it is empty, that is like ByUser.
	Channel string
	// Random is random bits, for LeastLoaded.
	Random uint64
}

// Router chooses gateways by rules. It never changes, so all methods may be called concurrently.
type Router struct {
	require   []requirement
	canary    *canary
	prefer    []preference
	policy    Policy
	groups    []Group
	bound     float64 // 0: none
	addresses int
}

type requirement struct {
	name   string
	when   When
	labels labelList
}

type preference struct {
	name  string
	when  When
	order []labelList
}

type canary struct {
	name   string
	salt   uint64
	share  float64
	labels labelList
}

// NewRouter checks rules and returns a Router for them; nil is the zero value. The error has all problems, each with the path of the field. The rules
// must not be changed afterwards.
func NewRouter(rules *Rules) (*Router, error) {
	if rules == nil {
		rules = &Rules{}
	}
	if err := rules.check(); err != nil {
		return nil, err
	}
	r := &Router{policy: rules.Policy, groups: rules.Groups, bound: rules.Bound, addresses: rules.Addresses}
	switch {
	case r.bound == 0:
		r.bound = DefaultBound
	case r.bound < 0:
		r.bound = 0
	}
	if r.addresses == 0 {
		r.addresses = DefaultAddresses
	}
	for _, rule := range rules.Require {
		r.require = append(r.require, requirement{rule.Name, rule.When, compileWanted(rule.Labels)})
	}
	for _, rule := range rules.Prefer {
		p := preference{rule.Name, rule.When, nil}
		for _, labels := range rule.Order {
			p.order = append(p.order, compileWanted(labels))
		}
		r.prefer = append(r.prefer, p)
	}
	if c := rules.Canary; c != nil {
		r.canary = &canary{c.Name, rendezvous.Mix(rendezvous.Hash(c.Name) + 1), c.Share, compileLabels(c.Labels)}
	}
	return r, nil
}

// Claims returns the names of the claims that the rules ask for, sorted, each once.
func (rules *Rules) Claims() []string {
	names := map[string]bool{}
	ask := func(w *When, labels ...Labels) {
		for name := range w.Claims {
			names[name] = true
		}
		for _, l := range labels {
			for _, value := range l {
				if name, ok := claimOf(value); ok {
					names[name] = true
				}
			}
		}
	}
	for i := range rules.Require {
		ask(&rules.Require[i].When, rules.Require[i].Labels)
	}
	for i := range rules.Prefer {
		ask(&rules.Prefer[i].When, rules.Prefer[i].Order...)
	}
	return slices.Sorted(maps.Keys(names))
}

func (rules *Rules) check() error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster: route: "+format, args...)) }
	if len(rules.Require) > MaxRules || len(rules.Prefer) > MaxRules || len(rules.Groups) > MaxRules {
		problem("more than %d rules of a kind", MaxRules)
		return errs[0]
	}
	for i, rule := range rules.Require {
		if err := inLine(rule.When.check(), checkWanted(rule.Labels)); err != nil {
			problem("require[%d] %q: %w", i, shortened(rule.Name), err)
		}
	}
	for i, rule := range rules.Prefer {
		err := rule.When.check()
		for _, labels := range rule.Order {
			err = inLine(err, checkWanted(labels))
		}
		if n := len(rule.Order); n == 0 || n > MaxOrder {
			err = inLine(err, fmt.Errorf("order: %d entries, not 1 to %d", n, MaxOrder))
		}
		if err != nil {
			problem("prefer[%d] %q: %w", i, shortened(rule.Name), err)
		}
	}
	if c := rules.Canary; c != nil {
		if !(c.Share >= 0 && c.Share <= 1) { // also for NaN
			problem("canary %q: share: %v is not between 0 and 1", shortened(c.Name), c.Share)
		}
		if err := checkWanted(c.Labels); err != nil {
			problem("canary %q: %w", shortened(c.Name), err)
		}
		for name, value := range c.Labels {
			if _, ok := claimOf(value); ok {
				problem("canary %q: label %s: %s stands for a claim, but the users of a canary are chosen by hash", shortened(c.Name), name, value)
			}
		}
	}
	if int(rules.Policy) >= len(policyNames) {
		problem("unknown %v", rules.Policy)
	}
	errs = append(errs, rules.checkGroups()...)
	if !(rules.Bound <= 0 || rules.Bound > 1 && rules.Bound <= MaxBound) {
		problem("bound: %v is not above 1, at most %d", rules.Bound, MaxBound)
	}
	if rules.Addresses < 0 || rules.Addresses > MaxAddresses {
		problem("addresses: %d is not between 1 and %d", rules.Addresses, MaxAddresses)
	}
	return errors.Join(errs...)
}

func (rules *Rules) checkGroups() (errs []error) {
	names := make(map[string]bool)
	for i, group := range rules.Groups {
		var err error
		switch {
		case group.Name == "":
			err = errors.New("name: missing")
		case names[group.Name]:
			err = errors.New("name: another group has it")
		case len(group.Channels) == 0:
			err = errors.New("channels: none is given")
		}
		names[group.Name] = true
		for _, pattern := range group.Channels {
			if bad := push.CheckChannel(pattern); bad != nil {
				err = inLine(err, fmt.Errorf("channels: %q: %w", shortened(pattern), bad))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cluster: route: groups[%d] %q: %w", i, shortened(group.Name), err))
		}
	}
	return errs
}

// checkWanted returns an error unless a rule can want these labels.
func checkWanted(labels Labels) error {
	if len(labels) == 0 {
		return errors.New("labels: none is given")
	}
	return checkLabels(labels)
}

func (w *When) check() error {
	var errs []error
	for _, p := range w.Prefixes {
		switch {
		case !p.IsValid():
			errs = append(errs, errors.New("prefixes: one is not valid"))
		case p.Addr().Is4In6():
			errs = append(errs, fmt.Errorf("prefixes: %v: write it as IPv4", p))
		case p != p.Masked():
			errs = append(errs, fmt.Errorf("prefixes: %v has bits beyond its length: write %v", p, p.Masked()))
		}
	}
	for name, value := range w.Claims {
		if name == "" {
			errs = append(errs, errors.New("claims: a name is empty"))
		}
		for _, text := range []string{name, value} {
			if err := checkText("claims", text); err != nil {
				errs = append(errs, err)
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // a map has any order
	return inLine(errs...)
}

// inLine joins errors like errors.Join, but in one line.
func inLine(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// matches reports whether a rule is for a client.
func (w *When) matches(c *Client) bool {
	for name, value := range w.Claims {
		if c.Claims[name] != value {
			return false
		}
	}
	if len(w.Prefixes) == 0 {
		return true
	}
	addr := c.Addr.Unmap().WithZone("")
	for _, p := range w.Prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// contains reports whether a user is in the canary.
func (c *canary) contains(user string) bool {
	return user != "" && rendezvous.Unit(rendezvous.Mix(rendezvous.Hash(user)^c.salt)) < c.share
}

// Group returns the group of a channel: see [Rules].
func (r *Router) Group(channel string) string {
	for i := range r.groups {
		for _, pattern := range r.groups[i].Channels {
			if push.MatchChannel(pattern, channel) {
				return r.groups[i].Name
			}
		}
	}
	return push.Namespace(channel)
}

// key returns the hash by which a client's gateways are ordered; ok is false if there is none, and the load decides.
func (r *Router) key(c *Client) (key uint64, ok bool) {
	switch {
	case r.policy == ByChannel && c.Channel != "":
		return rendezvous.Mix(rendezvous.Hash(r.Group(c.Channel)) + 2), true
	case r.policy != LeastLoaded && c.User != "":
		return rendezvous.Hash(c.User), true
	}
	return 0, false
}
