package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
)

// fixedSecret makes what is found by fuzzing repeatable.
const fixedSecret = "a secret that is the same in all runs"

// FuzzVerifier gives a verifier arbitrary texts as tokens, and arbitrary headers and claims with the right signature.
func FuzzVerifier(f *testing.F) {
	for _, seed := range []struct{ token, header, claims string }{
		{"", `{"alg":"HS256"}`, `{}`},
		{"a.b.c", `{"alg":"HS256","kid":"1"}`, `{"sub":"ann","exp":1900000000,"iat":1.5,"nbf":0,"expire_at":0,"jti":"x"}`},
		{"eyJhbGciOiJub25lIn0.e30.", `{"alg":"none"}`, `{"info":{"a":[1]},"b64info":"e30=","meta":{},"channels":["a"],"subs":{"b":{"b64data":"MQ=="}}}`},
		{"eyJhbGciOiJFUzI1NiJ9.e30.AAAA", `{"alg":"HS512","crit":[]}`, `{"caps":[{"channels":["a*"],"match":"wildcard","allow":["sub"]}],"channel":"$x","aud":["a"]}`},
		{"..", `{"alg":"HS256"}`, "{\"sub\":\"\xff\"}"},
		{"...", `{"alg":"HS256"}`, strings.Repeat("[", 300)},
		{".", `null`, `{"exp":1e400}`},
	} {
		f.Add(seed.token, seed.header, seed.claims)
	}
	secret, err := auth.Secret([]byte(fixedSecret))
	if err != nil {
		f.Fatal(err)
	}
	v := newVerifier(f, func(o *auth.Options) { o.Keys = secret })
	f.Fuzz(func(t *testing.T, token, header, claims string) {
		check := func(token string, isOurs bool) {
			c, err := v.Connection(context.Background(), token)
			checkOutcome(t, isOurs, c != nil, err)
			if err == nil {
				checkConnection(t, c)
			}
			s, err := v.Subscription(context.Background(), token)
			checkOutcome(t, isOurs, s != nil, err)
			if err == nil && (s.Channel == "" || c != nil) {
				t.Errorf("a subscription token for %q, which also connects: %t", s.Channel, c != nil)
			}
		}
		check(token, false)
		check(sign(t, "HS256", []byte(fixedSecret), header, claims), true)
	})
}

// checkOutcome checks that there is either a result or an error of the package, and a result only for a token that was signed with the secret.
func checkOutcome(t *testing.T, isOurs, hasResult bool, err error) {
	t.Helper()
	if hasResult == (err != nil) {
		t.Errorf("there is a result: %t, and the error is %v", hasResult, err)
	}
	if hasResult && !isOurs {
		t.Error("a token that nobody has signed is accepted")
	}
	var refused *auth.Error
	if err != nil && !errors.As(err, &refused) {
		t.Errorf("the error %v is not an *auth.Error", err)
	}
}

// checkConnection checks what later code relies on.
func checkConnection(t *testing.T, c *auth.Connection) {
	t.Helper()
	for _, text := range [][]byte{c.Info, c.Meta} {
		if text != nil && (len(text) == 0 || strings.ContainsAny(string(text), "\n\r")) {
			t.Errorf("%q is not one value on one line", text)
		}
	}
	for i, s := range c.Subscriptions {
		if s.Channel == "" || i > 0 && s.Channel <= c.Subscriptions[i-1].Channel {
			t.Errorf("the subscriptions %v are not sorted, or have a channel twice", c.Subscriptions)
		}
	}
	for _, capability := range c.Capabilities {
		capability.Covers("news:x")
	}
}
