package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/auth"
)

// made is claims as an issuer makes them. The order of its members is that of the token.
type made struct {
	User     string            `json:"sub"`
	ID       string            `json:"jti,omitempty"`
	Expiry   *float64          `json:"exp,omitempty"`
	Issued   *float64          `json:"iat,omitempty"`
	ExpireAt *float64          `json:"expire_at,omitempty"`
	Info     any               `json:"info,omitempty"`
	Base64   string            `json:"b64info,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Channels []string          `json:"channels,omitempty"`
	Other    any               `json:"other,omitempty"`
}

// madeByIssuers generates claims.
func madeByIssuers() *rapid.Generator[made] {
	name := rapid.StringMatching(`[^\x00-\x1f\x7f]{0,40}`)
	second := rapid.Custom(func(t *rapid.T) *float64 {
		s := float64(rapid.Int64Range(now.Unix()+1, 253402300799).Draw(t, "seconds"))
		return &s
	})
	return rapid.Custom(func(t *rapid.T) made {
		m := made{
			User:     name.Draw(t, "sub"),
			ID:       name.Draw(t, "jti"),
			Expiry:   rapid.Ptr(rapid.Float64Range(float64(now.Unix()+1), 253402300799), true).Draw(t, "exp"),
			Issued:   rapid.OneOf(rapid.Just[*float64](nil), second).Draw(t, "iat"),
			ExpireAt: rapid.OneOf(rapid.Just[*float64](nil), second, rapid.Just(new(float64))).Draw(t, "expire_at"),
			Info:     rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.MapOf(name, rapid.Int()), func(m map[string]int) any { return m })).Draw(t, "info"),
			Meta:     rapid.MapOf(name, name).Draw(t, "meta"),
			Channels: rapid.SliceOfDistinct(rapid.StringMatching(`\$?[a-z]{1,5}(:[a-z*#,]{0,9})?`), rapid.ID[string]).Draw(t, "channels"),
			Other:    rapid.SliceOf(rapid.String()).Draw(t, "other"),
		}
		if rapid.Bool().Draw(t, "b64info") {
			m.Base64 = base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf(`{"n":%d}`, rapid.Int().Draw(t, "n"))))
		}
		return m
	})
}

// What an issuer signs comes back as it was, and one changed byte anywhere is refused.
func TestSignedComesBack(t *testing.T) {
	v := newVerifier(t)
	rapid.Check(t, func(r *rapid.T) {
		m := madeByIssuers().Draw(r, "claims")
		name := rapid.SampledFrom(auth.Algorithms()).Draw(r, "algorithm")
		token := sign(t, name, known(name).private, fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, name, name), mustJSON(t, m))
		c, err := v.Connection(context.Background(), token)
		if err != nil {
			r.Fatalf("claims %s: %v", mustJSON(t, m), err)
		}
		compare(r, m, c)

		i := rapid.IntRange(0, len(token)-1).Draw(r, "index")
		b := byte(rapid.IntRange(0, 255).Draw(r, "byte"))
		if changed := token[:i] + string([]byte{b}) + token[i+1:]; changed != token {
			if got, err := v.Connection(context.Background(), changed); reasonOf(t, err) == "accepted" {
				r.Fatalf("byte %d is %q instead of %q, and the token is accepted: %+v", i, b, token[i], got)
			}
		}
		for what, changed := range map[string]string{
			"inserted": token[:i] + string([]byte{b}) + token[i:], "left out": token[:i] + token[i+1:], "cut off": token[:i],
		} {
			if got, err := v.Connection(context.Background(), changed); reasonOf(t, err) == "accepted" {
				r.Fatalf("a byte is %s at %d, and the token is accepted: %+v", what, i, got)
			}
		}
	})
}

// Each byte of one token, with each other value.
func TestEachByteCounts(t *testing.T) {
	v := newVerifier(t)
	for _, name := range []string{"HS256", "EdDSA"} {
		token := sign(t, name, known(name).private, fmt.Sprintf(`{"alg":%q}`, name), `{"sub":"a"}`)
		for i := range token {
			for b := range 256 {
				changed := token[:i] + string([]byte{byte(b)}) + token[i+1:]
				if _, err := v.Connection(context.Background(), changed); err == nil && changed != token {
					t.Errorf("%s: byte %d of %s is %d, and the token is accepted", name, i, token, b)
				}
			}
		}
	}
}

// compare compares what was signed with what comes back.
func compare(r *rapid.T, m made, c *auth.Connection) {
	at := func(s *float64) time.Time {
		if s == nil {
			return time.Time{}
		}
		whole := int64(*s)
		return time.Unix(whole, int64((*s-float64(whole))*1e9))
	}
	expires := at(m.Expiry)
	if m.ExpireAt != nil {
		if expires = at(m.ExpireAt); *m.ExpireAt == 0 {
			expires = time.Time{}
		}
	}
	info := ""
	if m.Info != nil {
		text, _ := json.Marshal(m.Info)
		info = string(text)
	}
	if m.Base64 != "" {
		text, _ := base64.StdEncoding.DecodeString(m.Base64)
		info = string(text)
	}
	meta := ""
	if len(m.Meta) > 0 {
		text, _ := json.Marshal(m.Meta)
		meta = string(text)
	}
	var channels []string
	for _, s := range c.Subscriptions {
		channels = append(channels, s.Channel)
	}
	switch {
	case c.User != m.User, c.ID != m.ID:
		r.Fatalf("user and ID are %q and %q, want %q and %q", c.User, c.ID, m.User, m.ID)
	case !c.ValidUntil.Equal(at(m.Expiry)), !c.Expires.Equal(expires), !c.IssuedAt.Equal(at(m.Issued)):
		r.Fatalf("times are %v, %v, %v, want %v, %v, %v", c.ValidUntil, c.Expires, c.IssuedAt, at(m.Expiry), expires, at(m.Issued))
	case string(c.Info) != info, string(c.Meta) != meta:
		r.Fatalf("info and meta are %s and %s, want %s and %s", c.Info, c.Meta, info, meta)
	case len(channels) != len(m.Channels):
		r.Fatalf("channels are %q, want %q", channels, m.Channels)
	}
	for _, name := range m.Channels {
		if !strings.Contains("\n"+strings.Join(channels, "\n")+"\n", "\n"+name+"\n") {
			r.Fatalf("channels are %q, want %q", channels, m.Channels)
		}
	}
}
