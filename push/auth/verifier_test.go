package auth_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/auth"
)

// Each algorithm accepts what was signed with its key, and refuses what was signed with another key, or was changed.
func TestAlgorithms(t *testing.T) {
	v := newVerifier(t)
	for _, name := range auth.Algorithms() {
		t.Run(name, func(t *testing.T) {
			header := fmt.Sprintf(`{"alg":%q,"kid":%q}`, name, name)
			good := sign(t, name, known(name).private, header, `{"sub":"ann"}`)
			c, err := v.Connection(t.Context(), good)
			if err != nil || c.User != "ann" {
				t.Fatalf("a good token: %+v, %v", c, err)
			}
			for what, token := range map[string]string{
				"signed with another key": sign(t, name, pairs()[name][1].private, header, `{"sub":"ann"}`),
				"other claims":            strings.Replace(good, encode(`{"sub":"ann"}`), encode(`{"sub":"bob"}`), 1),
				"another kid's":           strings.Replace(good, encode(header), encode(fmt.Sprintf(`{"alg":%q}`, name)), 1),
				"no signature":            good[:strings.LastIndexByte(good, '.')+1],
				"half a signature":        good[:strings.LastIndexByte(good, '.')+21],
				"zeros as signature":      good[:strings.LastIndexByte(good, '.')+1] + encode(make([]byte, 64)),
			} {
				if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "signature" {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// A token names its algorithm, but only accepted ones count, and a key serves only those of its own kind.
func TestAlgorithmIsPinned(t *testing.T) {
	for _, name := range auth.Algorithms() {
		v := newVerifier(t, func(o *auth.Options) { o.Algorithms = []string{name} })
		for _, other := range auth.Algorithms() {
			token := sign(t, other, known(other).private, fmt.Sprintf(`{"alg":%q}`, other), `{}`)
			want := "algorithm"
			if other == name {
				want = "accepted"
			}
			if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != want {
				t.Errorf("%s is accepted, a token has %s: %v", name, other, err)
			}
		}
	}
}

// A token without a signature is refused, however none is spelt, and so are algorithms that do not exist or are not strings.
func TestNone(t *testing.T) {
	v := newVerifier(t)
	for _, alg := range []string{
		`"none"`, `"None"`, `"NONE"`, `"nOnE"`, `"none "`, `" none"`, `"none\u0000"`, `"n\u006fne"`, `""`, `"hs256"`, `"HS256 "`, `"HS 256"`, `"ES256K"`, `"HS1"`,
		`"RSA-OAEP"`, `"\u212aS256"`, `null`,
	} {
		for _, signature := range []string{"", encode("x"), encode(make([]byte, 32))} {
			token := encode(`{"alg":`+alg+`}`) + "." + encode(`{"sub":"root"}`) + "." + signature
			if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "algorithm" {
				t.Errorf("alg %s, signature %q: %v", alg, signature, err)
			}
		}
	}
	for _, header := range []string{`{"alg":["HS256"]}`, `{"alg":1}`, `{"alg":{}}`, `null`, `[]`, `"HS256"`, ``, `{`, "{}x", "\xff", `{"alg":"HS256"}}`} {
		token := encode(header) + "." + encode(`{}`) + "."
		if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "malformed" {
			t.Errorf("header %s: %v", header, err)
		}
	}
	for _, header := range []string{`{}`, `{"ALG":"HS256"}`, `{"Alg":"HS256"}`} { // names of parameters are compared exactly
		token := sign(t, "HS256", known("HS256").private, header, `{}`)
		if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "algorithm" {
			t.Errorf("header %s: %v", header, err)
		}
	}
}

// A public key is no secret: what anybody can sign with it is refused, also where secrets are accepted besides.
func TestPublicKeyIsNoSecret(t *testing.T) {
	for _, name := range []string{"RS256", "ES256", "EdDSA"} {
		public := known(name).public
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		keys, err := auth.ParsePEM(text)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := auth.Secret(known("HS256").private.([]byte))
		if err != nil {
			t.Fatal(err)
		}
		v := newVerifier(t, func(o *auth.Options) { o.Keys = auth.Join(keys, secret) })
		for what, forged := range map[string][]byte{
			"PEM": text, "PEM without line break": text[:len(text)-1], "DER": der, "key": []byte(fmt.Sprint(public)),
		} {
			token := sign(t, "HS256", forged, `{"alg":"HS256"}`, `{"sub":"root"}`)
			if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "signature" {
				t.Errorf("signed with the public key of %s (%s): %v", name, what, err)
			}
		}
		if _, err := v.Connection(t.Context(), sign(t, name, known(name).private, fmt.Sprintf(`{"alg":%q}`, name), `{}`)); err != nil {
			t.Errorf("a good token of %s: %v", name, err)
		}
		alone := newVerifier(t, func(o *auth.Options) { o.Keys = keys })
		if _, err := alone.Connection(t.Context(), sign(t, "HS256", der, `{"alg":"HS256"}`, `{}`)); reasonOf(t, err) != "unknown_key" {
			t.Errorf("there are no secrets: %v", err)
		}
	}
}

// Keys that a token carries or names have no effect.
func TestForgedHeaders(t *testing.T) {
	v := newVerifier(t)
	attacker := pairs()["ES256"][1]
	der, err := x509.MarshalPKIXPublicKey(attacker.public)
	if err != nil {
		t.Fatal(err)
	}
	for _, extra := range []string{
		`"jwk":{"kty":"EC","crv":"P-256","x":"` + encode(der[27:59]) + `","y":"` + encode(der[59:]) + `"}`,
		`"jku":"https://attacker.example/keys"`, `"x5u":"https://attacker.example/cert"`,
		`"x5c":["` + encode(der) + `"]`, `"x5t":"AAAA"`, `"x5t#S256":"AAAA"`, `"typ":"JWT","cty":"JWT"`, `"b64":false`, `"zip":"DEF"`,
	} {
		header := `{"alg":"ES256",` + extra + `}`
		if _, err := v.Connection(t.Context(), sign(t, "ES256", attacker.private, header, `{"sub":"root"}`)); reasonOf(t, err) != "signature" {
			t.Errorf("%s: %v", header, err)
		}
		if _, err := v.Connection(t.Context(), sign(t, "ES256", known("ES256").private, header, `{"sub":"ann"}`)); err != nil {
			t.Errorf("%s, signed with the right key: %v", header, err)
		}
	}
	for header, want := range map[string]string{
		`{"alg":"ES256","crit":["exp"],"exp":1}`:                           "malformed",
		`{"alg":"ES256","crit":[]}`:                                        "malformed",
		`{"alg":"ES256","crit":null}`:                                      "malformed",
		`{"alg":"ES256","kid":1}`:                                          "malformed",
		`{"alg":"ES256","kid":["ES256"]}`:                                  "malformed",
		`{"alg":"ES256","kid":"` + strings.Repeat("k", 256) + `"}`:         "malformed",
		`{"alg":"ES256","kid":"` + strings.Repeat("k", 255) + `"}`:         "unknown_key",
		`{"alg":"ES256","kid":"../../dev/null"}`:                           "unknown_key",
		`{"alg":"ES256","kid":"' OR 1=1 --"}`:                              "unknown_key",
		`{"alg":"ES256","kid":"ES384"}`:                                    "unknown_key", // a key of another type
		`{"alg":"ES256","kid":"HS256"}`:                                    "unknown_key",
		`{"alg":"ES256","kid":null}`:                                       "accepted",
		`{"alg":"ES256","kid":""}`:                                         "accepted",
		`{"alg":"ES256","kid":"ES256"}`:                                    "accepted",
		`{"alg":"none","alg":"ES256"}`:                                     "accepted", // the last one counts, as RFC 7515 §4 allows
		`{"alg":"ES256","alg":"none"}`:                                     "algorithm",
		`{"alg":"ES256","x":` + deep(9000) + `}`:                           "accepted", // not looked at
		`{"alg":"ES256","x":` + strings.Repeat("[", 12000) + `}`:           "malformed",
		`{"alg":"ES256","x":` + strings.Repeat(`{"a":`, 7000) + `1`:        "malformed",
		`{"alg":"ES256","kid":"ES256","KID":"x","Kid":"y","CRIT":["x"]  }`: "accepted",
	} {
		_, err := v.Connection(t.Context(), sign(t, "ES256", known("ES256").private, header, `{}`))
		if reasonOf(t, err) != want {
			t.Errorf("header %.60s: %v, want %s", header, err, want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("header %.60s: the error has %d bytes", header, len(err.Error()))
		}
	}
}

// deep returns lists in lists.
func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Texts that are not tokens are refused as such, before a key is looked for.
func TestMalformed(t *testing.T) {
	good := make256(t, `{"sub":"ann"}`)
	parts := strings.Split(good, ".")
	asked := 0
	v := newVerifier(t, func(o *auth.Options) {
		o.Keys = finder(func(string, string) ([]any, error) {
			asked++
			return []any{known("HS256").public}, nil
		})
	})
	for what, token := range map[string]string{
		"empty": "", "dots": "..", "three dots": "...", "one part": parts[0], "two parts": parts[0] + "." + parts[1], "no header": "." + parts[1] + "." + parts[2],
		"four parts": good + ".", "four full parts": good + "." + parts[2], "five parts": good + ".a.b", "a dot first": "." + good,
		"space first": " " + good, "space last": good + " ", "line break last": good + "\n", "carriage return last": good + "\r",
		"line breaks": parts[0] + ".\n" + parts[1] + ".\r\n" + parts[2], "line break in the signature": good[:len(good)-5] + "\n" + good[len(good)-5:],
		"NUL last": good + "\x00", "byte last": good + "\xff", "padding": good + "=", "padding in header": parts[0] + "=." + parts[1] + "." + parts[2],
		"padding in claims": parts[0] + "." + parts[1] + "==." + parts[2], "base64 with plus": parts[0] + "." + parts[1] + ".+" + parts[2][1:],
		"base64 with slash": parts[0] + "." + parts[1] + "./" + parts[2][1:],
		"spare bits":        good[:len(good)-1] + spareBits(good[len(good)-1]),
		"in JSON":           `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "with a scheme": "Bearer " + good,
		"oversized": strings.Repeat("a", auth.MaxTokenBytes+1), "oversized, and signed": make256(t, `{"x":"`+strings.Repeat("a", auth.MaxTokenBytes)+`"}`),
		"only dots": strings.Repeat(".", auth.MaxTokenBytes),
	} {
		if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != "malformed" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if asked != 0 {
		t.Errorf("keys were looked for %d times", asked)
	}
	if _, err := v.Connection(t.Context(), good); err != nil || asked != 1 {
		t.Errorf("a good token: %v; keys were looked for %d times", err, asked)
	}
	for size, want := range map[int]string{auth.MaxTokenBytes: "accepted", auth.MaxTokenBytes + 1: "malformed"} {
		if _, err := v.Connection(t.Context(), ofSize(t, size)); reasonOf(t, err) != want {
			t.Errorf("a token of %d bytes: %v, want %s", size, err, want)
		}
	}
}

// ofSize returns a good token with a certain length.
func ofSize(t *testing.T, size int) string {
	t.Helper()
	for spaces := range 3 { // not each length is possible with each header
		header := `{"alg":"HS256"` + strings.Repeat(" ", spaces) + `}`
		empty := len(sign(t, "HS256", known("HS256").private, header, `{}`))
		claims := `{` + strings.Repeat(" ", (size-empty)*3/4) + `}`
		if token := sign(t, "HS256", known("HS256").private, header, claims); len(token) == size {
			return token
		}
	}
	t.Fatalf("no token has %d bytes", size)
	return ""
}

// spareBits returns another last character of 32 bytes in base64url, which stands for the same bytes if the decoder is not strict.
func spareBits(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)^1])
}

// finder is a source of keys.
type finder func(algorithm, kid string) ([]any, error)

// Find implements [auth.Keys].
func (f finder) Find(_ context.Context, algorithm, kid string) ([]any, error) {
	return f(algorithm, kid)
}

// Claims are not looked at before the signature is right: whatever they are, the reason is the signature.
func TestClaimsOfStrangers(t *testing.T) {
	v := newVerifier(t)
	stranger := pairs()["HS256"][1].private
	for _, claims := range []string{`{}`, `{`, ``, "\xff", `{"exp":1}`, `{"exp":"x"}`, deep(100), deep(20000), strings.Repeat("[", 40000), `{"channel":"x"}`} {
		if _, err := v.Connection(t.Context(), sign(t, "HS256", stranger, `{"alg":"HS256"}`, claims)); reasonOf(t, err) != "signature" {
			t.Errorf("claims %.40q: %v", claims, err)
		}
	}
}

// Times, issuer and audience, with the edges of the leeway.
func TestTimeIssuerAudience(t *testing.T) {
	at := func(d time.Duration) string {
		return fmt.Sprintf("%.3f", float64(now.UnixMilli()+d.Milliseconds())/1000)
	}
	leeway := func(o *auth.Options) { o.Leeway = 5 * time.Second }
	issuer := func(o *auth.Options) { o.Issuer = "https://id.example" }
	audience := func(o *auth.Options) { o.Audience = []string{"sluice", "other"} }
	const ms = time.Millisecond
	for _, tt := range []struct {
		claims string
		option func(*auth.Options)
		want   string
	}{
		{`{"exp":` + at(ms) + `}`, nil, "accepted"},
		{`{"exp":` + at(0) + `}`, nil, "expired"},
		{`{"exp":` + at(-5*time.Second+ms) + `}`, leeway, "accepted"},
		{`{"exp":` + at(-5*time.Second) + `}`, leeway, "expired"},
		{`{"exp":0}`, nil, "expired"},
		{`{"exp":0,"expire_at":0}`, nil, "expired"},
		{`{"expire_at":1}`, nil, "accepted"}, // what it ends is the connection
		{`{"nbf":` + at(0) + `}`, nil, "accepted"},
		{`{"nbf":` + at(ms) + `}`, nil, "not_yet_valid"},
		{`{"nbf":` + at(5*time.Second) + `}`, leeway, "accepted"},
		{`{"nbf":` + at(5*time.Second+ms) + `}`, leeway, "not_yet_valid"},
		{`{"nbf":0}`, nil, "accepted"},
		{`{"iat":` + at(time.Hour) + `}`, nil, "accepted"}, // RFC 7519 §4.1.6 gives it no such meaning
		{`{}`, issuer, "issuer"},
		{`{"iss":""}`, issuer, "issuer"},
		{`{"iss":null}`, issuer, "issuer"},
		{`{"iss":"https://id.example/"}`, issuer, "issuer"},
		{`{"iss":"https://ID.example"}`, issuer, "issuer"},
		{`{"iss":"https://id.example"}`, issuer, "accepted"},
		{`{"ISS":"https://id.example"}`, issuer, "issuer"},
		{`{"iss":"x","ISS":"https://id.example"}`, issuer, "issuer"},
		{`{"iss":["https://id.example"]}`, issuer, "claims"},
		{`{"iss":"whatever"}`, nil, "accepted"},
		{`{}`, audience, "audience"},
		{`{"aud":null}`, audience, "audience"},
		{`{"aud":""}`, audience, "audience"},
		{`{"aud":[]}`, audience, "audience"},
		{`{"aud":[""]}`, audience, "audience"},
		{`{"aud":"Sluice"}`, audience, "audience"},
		{`{"aud":["a","b"]}`, audience, "audience"},
		{`{"aud":"sluice"}`, audience, "accepted"},
		{`{"aud":["a","other"]}`, audience, "accepted"},
		{`{"aud":1}`, audience, "claims"},
		{`{"aud":{"sluice":1}}`, audience, "claims"},
		{`{"aud":["sluice",1]}`, audience, "claims"},
		{`{"aud":"whatever"}`, nil, "accepted"},
		{`{"iss":"x","exp":1}`, issuer, "issuer"}, // who made it comes first
	} {
		var change []func(*auth.Options)
		if tt.option != nil {
			change = append(change, tt.option)
		}
		v := newVerifier(t, change...)
		if _, err := v.Connection(t.Context(), make256(t, tt.claims)); reasonOf(t, err) != tt.want {
			t.Errorf("claims %s: %v, want %s", tt.claims, err, tt.want)
		}
	}
}

// The clock is that of the machine if none is given.
func TestClock(t *testing.T) {
	v := newVerifier(t, func(o *auth.Options) { o.Now = nil })
	for offset, want := range map[time.Duration]string{time.Hour: "accepted", -time.Hour: "expired"} {
		if _, err := v.Connection(t.Context(), make256(t, fmt.Sprintf(`{"exp":%d}`, time.Now().Add(offset).Unix()))); reasonOf(t, err) != want {
			t.Errorf("a token that ends in %v: %v, want %s", offset, err, want)
		}
	}
}

// A token of one kind does not serve as one of the other.
func TestOtherKind(t *testing.T) {
	v := newVerifier(t)
	if _, err := v.Connection(t.Context(), make256(t, `{"sub":"ann","channel":"news"}`)); reasonOf(t, err) != "claims" {
		t.Errorf("a subscription token connects: %v", err)
	}
	for _, claims := range []string{`{"sub":"ann"}`, `{"sub":"ann","channel":""}`, `{"sub":"ann","channel":null}`, `{"sub":"ann","Channel":"news"}`} {
		token := make256(t, claims)
		if _, err := v.Subscription(t.Context(), token); reasonOf(t, err) != "claims" {
			t.Errorf("a connection token with %s subscribes: %v", claims, err)
		}
		if _, err := v.Connection(t.Context(), token); err != nil {
			t.Errorf("a connection token with %s: %v", claims, err)
		}
	}
	s, err := v.Subscription(t.Context(), make256(t, `{"sub":"ann","channel":"news"}`))
	if err != nil || s.User != "ann" || s.Channel != "news" {
		t.Errorf("a subscription token: %+v, %v", s, err)
	}
	if _, err := v.Subscription(t.Context(), "x"); reasonOf(t, err) != "malformed" {
		t.Errorf("no token: %v", err)
	}
}

// A source of keys may refuse a token, or fail. It may also have keys that do not fit, or very many.
func TestKeySource(t *testing.T) {
	good := make256(t, `{}`)
	fault := errors.New("the disk is full")
	secret := known("HS256").public
	strangers := slices.Repeat([]any{pairs()["HS256"][1].public}, auth.MostKeys-1)
	for _, tt := range []struct {
		what string
		keys []any
		err  error
		want string
	}{
		{"fails", nil, fault, "unavailable"},
		{"refuses", nil, &auth.Error{Reason: auth.Revoked, Cause: fault}, "revoked"},
		{"refuses, wrapped", nil, fmt.Errorf("x: %w", &auth.Error{Reason: auth.UnknownKey, Cause: fault}), "unknown_key"},
		{"has none", nil, nil, "unknown_key"},
		{"has only other types", []any{known("RS256").public, known("ES256").public, "text", nil}, nil, "unknown_key"},
		{"has the key last", append([]any{known("RS256").public}, append(strangers, secret)...), nil, "accepted"},
		{"has too many", append(strangers, strangers[0], secret), nil, "signature"},
	} {
		v := newVerifier(t, func(o *auth.Options) {
			o.Keys = finder(func(string, string) ([]any, error) { return tt.keys, tt.err })
		})
		_, err := v.Connection(t.Context(), good)
		if reasonOf(t, err) != tt.want || tt.err != nil && !errors.Is(err, fault) {
			t.Errorf("%s: %v, want %s", tt.what, err, tt.want)
		}
	}
}

func TestNewVerifier(t *testing.T) {
	keys := allKeys()
	for what, o := range map[string]auth.Options{
		"no algorithm": {Keys: keys}, "none": {Keys: keys, Algorithms: []string{"HS256", "none"}}, "unknown": {Keys: keys, Algorithms: []string{"hs256"}},
		"no keys": {Algorithms: []string{"HS256"}}, "negative leeway": {Keys: keys, Algorithms: []string{"HS256"}, Leeway: -1},
	} {
		if v, err := auth.NewVerifier(o); err == nil || v != nil {
			t.Errorf("%s: no error", what)
		}
	}
	algorithms := []string{"HS256"}
	v := newVerifier(t, func(o *auth.Options) { o.Algorithms = algorithms })
	algorithms[0] = "HS512"
	if _, err := v.Connection(t.Context(), make256(t, `{}`)); err != nil {
		t.Errorf("the options were changed afterwards: %v", err)
	}
}

func TestReason(t *testing.T) {
	var names []string
	for i, r := range auth.Reasons() {
		if int(r) != i {
			t.Errorf("reason %d is %d", i, r)
		}
		names = append(names, r.String())
	}
	if got, want := strings.Join(names, " "), "malformed algorithm unknown_key signature expired not_yet_valid issuer audience claims revoked unavailable busy"; got != want {
		t.Errorf("the reasons are %s, want %s", got, want)
	}
	if got := auth.Reason(200).String(); got != "reason(200)" {
		t.Errorf("an unknown reason is %q", got)
	}
}

// An error says nothing that could be used: neither the signature nor a key.
func TestErrorsKeepSecrets(t *testing.T) {
	v := newVerifier(t, func(o *auth.Options) { o.Issuer = "x" })
	token := make256(t, mustJSON(t, map[string]string{"sub": "ann"}))
	signature := token[strings.LastIndexByte(token, '.')+1:]
	for _, token := range []string{token, token + "A", token + "!", strings.Replace(token, ".", ".A", 1), sign(t, "HS256", pairs()["HS256"][1].private, `{"alg":"HS256"}`, `{}`)} {
		_, err := v.Connection(t.Context(), token)
		if err == nil || strings.Contains(err.Error(), signature[:10]) {
			t.Errorf("the error is %v", err)
		}
		var refused *auth.Error
		if !errors.As(err, &refused) || !errors.Is(err, refused.Cause) {
			t.Errorf("the error %v does not have its cause", err)
		}
	}
}
