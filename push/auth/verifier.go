package auth

import (
	"context"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say which tokens are accepted.
type Options struct {
	// Algorithms are the accepted ones, by their names in RFC 7518 §3.1 and RFC 8037 §3.1, see [Algorithms]. At least one.
	Algorithms []string
	// Keys has the keys of signatures.
	Keys Keys
	// Issuer is what the claim iss has to be; empty accepts all.
	Issuer string
	// Audience are the values of which the claim aud has to have one; empty accepts all.
	Audience []string
	// UserClaim is the claim with the user's ID; empty means sub.
	UserClaim string
	// Claims are names of further claims, whose values Connection.Claims has: those that rules for clients ask for. At most [MaxClaims].
	Claims []string
	// Leeway is by how much the clocks of the back end and of the node may differ; not negative.
	Leeway time.Duration
	// Gate bounds how many signatures are checked at the same time, except those of HS256, HS384 and HS512, which cost next to nothing; nil is no
	// bound.
	Gate Gate
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Gate bounds how many goroutines do something at the same time. Its methods may be called concurrently.
type Gate interface {
	// Enter waits until the calling goroutine may go on, which then calls Leave. After an error it must not go on, nor call Leave.
	Enter(ctx context.Context) error
	Leave()
}

// Verifier checks tokens. Its methods may be called concurrently.
type Verifier struct {
	options Options
}

// MaxTokenBytes is the longest token that is looked at.
const MaxTokenBytes = 64 << 10

// MaxIDBytes is the longest ID of a token (jti) or of a key (kid) that is accepted, in bytes.
const MaxIDBytes = 255

// MaxClaims is how many names Options.Claims may have. MaxClaimBytes is the longest value of such a claim that has an effect, in bytes.
const (
	MaxClaims     = 64
	MaxClaimBytes = 255
)

// NewVerifier returns a verifier. It copies the options. The error says which option is wrong.
func NewVerifier(o Options) (*Verifier, error) {
	if len(o.Algorithms) == 0 {
		return nil, errors.New("auth: no algorithm is accepted: name at least one")
	}
	for _, name := range o.Algorithms {
		if _, ok := find(name); !ok {
			return nil, fmt.Errorf("auth: unknown algorithm %q: use %s", name, strings.Join(Algorithms(), ", "))
		}
	}
	if o.Keys == nil {
		return nil, errors.New("auth: there are no keys")
	}
	if o.Leeway < 0 {
		return nil, fmt.Errorf("auth: the leeway %v is negative", o.Leeway)
	}
	if len(o.Claims) > MaxClaims {
		return nil, fmt.Errorf("auth: %d claims are asked for, at most %d are allowed", len(o.Claims), MaxClaims)
	}
	if slices.Contains(o.Claims, "") {
		return nil, errors.New("auth: the name of a claim is empty")
	}
	if o.UserClaim == "" {
		o.UserClaim = "sub"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Algorithms, o.Audience, o.Claims = slices.Clone(o.Algorithms), slices.Clone(o.Audience), slices.Clone(o.Claims)
	return &Verifier{options: o}, nil
}

// Connection checks the token of a connection. A token that is for a subscription is refused. Errors are *[Error].
func (v *Verifier) Connection(ctx context.Context, token string) (*Connection, error) {
	p, err := v.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	c, err := p.connection()
	if err != nil {
		return nil, &Error{Claims, err}
	}
	return c, nil
}

// Subscription checks the token of a subscription. Errors are *[Error]. The caller compares its channel and user.
func (v *Verifier) Subscription(ctx context.Context, token string) (*Subscription, error) {
	p, err := v.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	s, err := p.subscription()
	if err != nil {
		return nil, &Error{Claims, err}
	}
	return s, nil
}

// verify returns the claims of a token that is valid now.
func (v *Verifier) verify(ctx context.Context, token string) (*payload, error) {
	data, err := v.signed(ctx, token)
	if err != nil {
		return nil, err
	}
	p, err := parsePayload(data, v.options.UserClaim, v.options.Claims)
	if err != nil {
		return nil, &Error{Claims, err}
	}
	if err := v.check(p); err != nil {
		return nil, err
	}
	return p, nil
}

// signed returns the claims of a token whose signature is right, as they are. Until then nothing of them is looked at: what anybody can send costs
// no more than a small header and one signature.
func (v *Verifier) signed(ctx context.Context, token string) ([]byte, error) {
	if len(token) > MaxTokenBytes {
		return nil, &Error{Malformed, fmt.Errorf("the token has %d bytes, at most %d are allowed", len(token), MaxTokenBytes)}
	}
	first, rest, _ := strings.Cut(token, ".")
	second, third, ok := strings.Cut(rest, ".")
	if !ok {
		return nil, &Error{Malformed, errors.New("the token does not have three parts")}
	}
	h, err := parseHeader(first)
	if err != nil {
		return nil, &Error{Malformed, err}
	}
	data, err := decode(second)
	if err != nil {
		return nil, &Error{Malformed, fmt.Errorf("the claims: %w", err)}
	}
	signature, err := decode(third)
	if err != nil {
		return nil, &Error{Malformed, fmt.Errorf("the signature: %w", err)}
	}
	if err := v.checkSignature(ctx, h, token[:len(first)+1+len(second)], signature); err != nil {
		return nil, err
	}
	return data, nil
}

// checkSignature returns an *[Error] unless one of the keys has made the signature of a text.
func (v *Verifier) checkSignature(ctx context.Context, h header, text string, signature []byte) error {
	a, ok := find(h.algorithm)
	if !ok || !slices.Contains(v.options.Algorithms, h.algorithm) {
		return &Error{Algorithm, fmt.Errorf("the algorithm %.20q is not accepted", h.algorithm)}
	}
	keys, err := v.options.Keys.Find(ctx, h.algorithm, h.keyID)
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return refused
	case err != nil:
		return &Error{Unavailable, err}
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key any) bool { return !Fits(h.algorithm, key) })
	if len(keys) == 0 {
		return &Error{UnknownKey, fmt.Errorf("there is no key for the algorithm %s", h.algorithm)}
	}
	if gate := v.options.Gate; gate != nil && a.family != hmacKey {
		if err := gate.Enter(ctx); err != nil {
			return &Error{Busy, err}
		}
		defer gate.Leave()
	}
	for _, key := range keys[:min(len(keys), MostKeys)] {
		if a.Verify(text, signature, key) == nil {
			return nil
		}
	}
	return &Error{Signature, errors.New("the signature is not of a known key")}
}

// header is what counts of a token's header. Parameters that carry keys or say where they are have no effect.
type header struct {
	algorithm string
	keyID     string
}

// parseHeader decodes the first part of a token.
func parseHeader(part string) (h header, err error) {
	data, err := decode(part)
	if err != nil {
		return h, fmt.Errorf("the header: %w", err)
	}
	all, err := members(data, []member{{"alg", &h.algorithm}, {"kid", &h.keyID}})
	if err != nil {
		return h, fmt.Errorf("the header: %w", err)
	}
	if _, ok := all["crit"]; ok { // RFC 7515 §4.1.11
		return h, errors.New("the header has critical parameters, of which none is known")
	}
	if len(h.keyID) > MaxIDBytes {
		return h, fmt.Errorf("the header: kid has %d bytes, at most %d are allowed", len(h.keyID), MaxIDBytes)
	}
	return h, nil
}

// decode returns what a part of a token stands for. Each value has one text: no padding, no spare bits, and none of the line breaks that package
// base64 passes over.
func decode(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, errors.New("not base64url: it has a line break")
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, fmt.Errorf("not base64url: %w", err)
	}
	return data, nil
}

// member is a member of a JSON object, and where its value goes.
type member struct {
	name   string
	target any
}

// members decodes some members of a JSON object, and returns all. Names are compared exactly, which package encoding/json does not do with
// structs. Of several members with the same name the last one counts (RFC 7515 §4, RFC 7519 §4).
func members(data []byte, wanted []member) (map[string]stdjson.RawMessage, error) {
	var all map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(data, &all); err != nil || all == nil {
		return nil, errors.New("not a JSON object")
	}
	for _, m := range wanted {
		raw, ok := all[m.name]
		if !ok {
			continue
		}
		err := stdjson.Unmarshal(raw, m.target)
		if wrong := new(stdjson.UnmarshalTypeError); errors.As(err, &wrong) {
			kind, _, _ := strings.Cut(wrong.Value, " ")
			err = fmt.Errorf("a %s is not allowed", kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return all, nil
}

// check returns an *[Error] if claims are not for this node, or not for now. Of several reasons, one of who made the token comes first.
func (v *Verifier) check(p *payload) error {
	o, now := &v.options, v.options.Now()
	switch {
	case o.Issuer != "" && p.issuer != o.Issuer:
		return &Error{Issuer, fmt.Errorf("the issuer is %.100q", p.issuer)}
	case len(o.Audience) > 0 && !slices.ContainsFunc(p.audience, func(a string) bool { return slices.Contains(o.Audience, a) }):
		return &Error{Audience, fmt.Errorf("the audience is %.100q", p.audience)}
	case p.notBefore.isSet && now.Before(p.notBefore.Add(-o.Leeway)):
		return &Error{NotYet, fmt.Errorf("it is valid from %s", p.notBefore.UTC().Format(time.RFC3339))}
	case p.expiry.isSet && !now.Before(p.expiry.Add(o.Leeway)):
		return &Error{Expired, fmt.Errorf("it was valid until %s", p.expiry.UTC().Format(time.RFC3339))}
	}
	return nil
}
