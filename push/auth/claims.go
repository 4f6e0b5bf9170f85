package auth

import (
	"cmp"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// Token is what tokens of both kinds have.
type Token struct {
	// User is the user's ID (claim sub, or the one of Options.UserClaim); empty for an anonymous client.
	User string
	// ID identifies the token (jti), so that it can be revoked by itself; empty if it has none.
	ID string
	// IssuedAt is when it was issued (iat), and ValidUntil when it ends (exp). Zero: not said.
	IssuedAt   time.Time
	ValidUntil time.Time
	// Expires is when what the token was presented for ends, the connection or the subscription, unless it is refreshed: the claim expire_at, or
	// exp if there is none. Zero: never, which an expire_at of 0 says.
	Expires time.Time
	// Info is one JSON value that describes the client to others (info, b64info), or nil.
	Info []byte
}

// Connection is a token of a connection.
type Connection struct {
	Token
	// Meta is a JSON object for the application's back end (meta), which clients never see, or nil.
	Meta []byte
	// Subscriptions are the server-side subscriptions of the connection (channels, subs), sorted by channel. No channel occurs twice.
	Subscriptions []ServerSubscription
	// Claims are the values of claims that Options.Claims names, by name: strings as they are, numbers, true and false as JSON spells them. A claim has no
	// effect if it is anything else, or longer than [MaxClaimBytes]. Nil: there are none.
	Claims map[string]string
	// Capabilities are permissions besides those of the configuration (caps).
	Capabilities []Capability
}

// Subscription is a token of a single subscription.
type Subscription struct {
	Token
	// Channel is the only one that the token is for.
	Channel string
	// Override changes settings of the channel's namespace for the subscription (override).
	Override Override
}

// Override has settings of a namespace that a token changes for one subscription.
type Override struct {
	// ForcePushJoinLeave says whether the client gets the channel's join and leave pushes without asking; nil: as the namespace says.
	ForcePushJoinLeave *bool
}

// ServerSubscription is a subscription that the server makes when a client connects.
type ServerSubscription struct {
	Channel string
	Info    []byte // one JSON value that describes the client in this channel, or nil
	Data    []byte // one JSON value for the client, with the answer, or nil
	// Override changes settings of the channel's namespace for the subscription.
	Override Override
}

// Capability permits actions in channels.
type Capability struct {
	// Channels are patterns, in which each * stands for any number of characters. But the part before the first colon, the namespace, is compared
	// as it is. The pattern * matches every channel.
	Channels []string
	// Exact says that Channels are names, in which a * stands for itself.
	Exact   bool
	Actions push.Actions
}

// Match returns the first of the names or patterns that covers a channel.
func (c *Capability) Match(channel string) (pattern string, ok bool) {
	for _, pattern := range c.Channels {
		if pattern == channel || !c.Exact && matches(pattern, channel) {
			return pattern, true
		}
	}
	return "", false
}

// Covers reports whether the capability is for a channel.
func (c *Capability) Covers(channel string) bool {
	_, ok := c.Match(channel)
	return ok
}

func matches(pattern, channel string) bool {
	return pattern == "*" || push.Namespace(pattern) == push.Namespace(channel) && push.MatchChannel(pattern, channel)
}

// Covering returns the first of some capabilities that covers a channel, or nil. It alone decides about the channel, so that a list may go from
// exceptions to the rule.
func Covering(capabilities []Capability, channel string) *Capability {
	for i := range capabilities {
		if capabilities[i].Covers(channel) {
			return &capabilities[i]
		}
	}
	return nil
}

// payload is the body of a token, after its types were checked.
type payload struct {
	user, id, issuer                    string
	audience                            names
	expiry, notBefore, issued, expireAt seconds

	info, meta  stdjson.RawMessage
	encodedInfo string // info in Base64
	channel     string
	channels    []string
	subs        map[string]options
	caps        []capability
	override    override
	kept        map[string]string // see Connection.Claims
}

// parsePayload decodes claims. Names of claims are compared exactly; claims that are neither known nor kept have no effect.
func parsePayload(data []byte, userClaim string, keep []string) (*payload, error) {
	if _, err := json.CompactData(data); err != nil { // bounds the depth, for all who read a part of it; refuses invalid UTF-8
		return nil, fmt.Errorf("the claims: %w", err)
	}
	p := new(payload)
	all, err := members(data, []member{
		{"iss", &p.issuer},
		{"aud", &p.audience},
		{"jti", &p.id},
		{"exp", &p.expiry},
		{"nbf", &p.notBefore},
		{"iat", &p.issued},
		{"expire_at", &p.expireAt},
		{"info", &p.info},
		{"b64info", &p.encodedInfo},
		{"meta", &p.meta},
		{"channel", &p.channel},
		{"channels", &p.channels},
		{"subs", &p.subs},
		{"caps", &p.caps},
		{"override", &p.override},
	})
	if err != nil {
		return nil, fmt.Errorf("the claims: %w", err)
	}
	raw, ok := all[userClaim]
	switch {
	case ok && (raw[0] != '"' || stdjson.Unmarshal(raw, &p.user) != nil):
		return nil, fmt.Errorf("the claim %s, with the user, is not a string", userClaim)
	case !ok && userClaim != "sub":
		return nil, fmt.Errorf("the claim %s, with the user, is missing", userClaim)
	case len(p.id) > MaxIDBytes:
		return nil, fmt.Errorf("the claim jti has %d bytes, at most %d are allowed", len(p.id), MaxIDBytes)
	}
	p.kept = scalars(all, keep)
	return p, push.CheckUser(p.user)
}

// scalars returns the claims with some names that are strings, numbers, true or false, and not too long. They stay valid without the others.
func scalars(all map[string]stdjson.RawMessage, names []string) map[string]string {
	var out map[string]string
	for _, name := range names {
		raw, ok := all[name]
		if !ok || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
			continue
		}
		text := string(raw)
		if raw[0] == '"' && stdjson.Unmarshal(raw, &text) != nil || len(text) > MaxClaimBytes {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(names))
		}
		out[name] = text
	}
	return out
}

// seconds is a time in seconds since 1970, which may have a fraction (RFC 7519 §2, NumericDate).
type seconds struct {
	time.Time
	isSet bool
}

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (s *seconds) UnmarshalJSON(data []byte) error {
	var n *float64
	if stdjson.Unmarshal(data, &n) != nil || n == nil {
		return errors.New("not a number of seconds")
	}
	if *n < 0 || *n > lastSecond {
		return errors.New("a time that is out of range")
	}
	whole, fraction := math.Modf(*n)
	*s = seconds{time.Unix(int64(whole), int64(fraction*float64(time.Second))), true}
	return nil
}

// names is a list of strings, or one string.
type names []string

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (n *names) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*n = make(names, 1)
		return stdjson.Unmarshal(data, &(*n)[0])
	}
	return stdjson.Unmarshal(data, (*[]string)(n))
}

// options are what the claim subs has for one channel.
type options struct {
	info, data               stdjson.RawMessage
	encodedInfo, encodedData string
	override                 override
}

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (o *options) UnmarshalJSON(data []byte) error {
	_, err := members(data, []member{{"info", &o.info}, {"b64info", &o.encodedInfo}, {"data", &o.data}, {"b64data", &o.encodedData}, {"override", &o.override}})
	return err
}

// override is the claim of that name. Each of its members is an object with the member value.
type override struct{ joins flag }

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (o *override) UnmarshalJSON(data []byte) error {
	_, err := members(data, []member{{"force_push_join_leave", &o.joins}})
	return err
}

func (o *override) settings() Override { return Override{ForcePushJoinLeave: o.joins.value} }

// flag is a setting that may be left out.
type flag struct{ value *bool }

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (f *flag) UnmarshalJSON(data []byte) error {
	_, err := members(data, []member{{"value", &f.value}})
	return err
}

// capability is an entry of the claim caps.
type capability struct {
	channels names
	match    string
	allow    []string
}

// UnmarshalJSON implements [stdjson.Unmarshaler].
func (c *capability) UnmarshalJSON(data []byte) error {
	_, err := members(data, []member{{"channels", &c.channels}, {"match", &c.match}, {"allow", &c.allow}})
	return err
}

// token returns what tokens of both kinds have.
func (p *payload) token() (Token, error) {
	t := Token{User: p.user, ID: p.id, IssuedAt: p.issued.Time, ValidUntil: p.expiry.Time, Expires: p.expiry.Time}
	switch {
	case p.expireAt.isSet && p.expireAt.Equal(time.Unix(0, 0)):
		t.Expires = time.Time{}
	case p.expireAt.isSet:
		t.Expires = p.expireAt.Time
	}
	var err error
	t.Info, err = value("info", p.info, p.encodedInfo)
	return t, err
}

func (p *payload) connection() (*Connection, error) {
	if p.channel != "" {
		return nil, errors.New("the token is for a subscription: it has the claim channel")
	}
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	c := &Connection{Token: t, Claims: p.kept}
	c.Meta, err = value("meta", p.meta, "")
	if c.Meta != nil && c.Meta[0] != '{' {
		err = errors.New("the claim meta is not an object")
	}
	if err != nil {
		return nil, err
	}
	if c.Subscriptions, err = p.subscriptions(); err != nil {
		return nil, err
	}
	c.Capabilities, err = p.capabilities()
	return c, err
}

func (p *payload) capabilities() ([]Capability, error) {
	var out []Capability
	for _, entry := range p.caps {
		switch entry.match {
		case "", "exact", "wildcard":
		default:
			return nil, fmt.Errorf("the claim caps has the unknown match %q: leave it out, or use wildcard", entry.match)
		}
		actions, err := push.ParseActions(entry.allow)
		if err != nil {
			return nil, fmt.Errorf("the claim caps: %w", err)
		}
		out = append(out, Capability{Channels: entry.channels, Exact: entry.match != "wildcard", Actions: actions})
	}
	return out, nil
}

func (p *payload) subscriptions() ([]ServerSubscription, error) {
	var out []ServerSubscription
	for channel, o := range p.subs {
		s := ServerSubscription{Channel: channel, Override: o.override.settings()}
		var err error
		if s.Info, err = value("subs.info", o.info, o.encodedInfo); err != nil {
			return nil, err
		}
		if s.Data, err = value("subs.data", o.data, o.encodedData); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	for _, channel := range p.channels {
		if _, ok := p.subs[channel]; !ok {
			out = append(out, ServerSubscription{Channel: channel})
		}
	}
	slices.SortFunc(out, func(a, b ServerSubscription) int { return cmp.Compare(a.Channel, b.Channel) })
	out = slices.CompactFunc(out, func(a, b ServerSubscription) bool { return a.Channel == b.Channel })
	for _, s := range out {
		if err := push.CheckChannel(s.Channel); err != nil {
			return nil, fmt.Errorf("a server-side subscription: %w", err)
		}
	}
	return out, nil
}

func (p *payload) subscription() (*Subscription, error) {
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	if err := push.CheckChannel(p.channel); err != nil {
		return nil, fmt.Errorf("the claim channel: %w", err)
	}
	return &Subscription{Token: t, Channel: p.channel, Override: p.override.settings()}, nil
}

// value returns a JSON value that a token has as it is or in Base64, on one line.
func value(name string, raw stdjson.RawMessage, encoded string) ([]byte, error) {
	if encoded != "" {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("the claim %s is not JSON in Base64", name)
		}
		raw = decoded
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	out, err := json.CompactData(raw)
	if err != nil {
		return nil, fmt.Errorf("the claim %s is not JSON: %w", name, err)
	}
	return out, nil
}
