package auth_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
)

// The claims that are asked for are kept, as text, and no others.
func TestKeptClaims(t *testing.T) {
	long := strings.Repeat("x", auth.MaxClaimBytes)
	asked := func(o *auth.Options) { o.Claims = []string{"tier", "zone", "https://example.org/plan"} }
	for claims, want := range map[string]map[string]string{
		`{}`:                                    nil,
		`{"sub":"ann"}`:                         nil,
		`{"tier":"vip","other":"x","Zone":"a"}`: {"tier": "vip"},
		`{"tier":"vip","zone":"a"}`:             {"tier": "vip", "zone": "a"},
		`{"https://example.org/plan":"gold"}`:   {"https://example.org/plan": "gold"},
		`{"tier":"v\u0069p"}`:                   {"tier": "vip"},
		`{"tier":"安娜"}`:                         {"tier": "安娜"},
		`{"tier":""}`:                           {"tier": ""},
		`{"tier":7,"zone":-1.50e3}`:             {"tier": "7", "zone": "-1.50e3"},
		`{"tier":true,"zone":false}`:            {"tier": "true", "zone": "false"},
		`{"tier":null,"zone":"a"}`:              {"zone": "a"},
		`{"tier":["vip"],"zone":{"a":1}}`:       nil,
		`{"tier":"a","tier":"b"}`:               {"tier": "b"},
		`{"tier":"` + long + `"}`:               {"tier": long},
		`{"tier":"` + long + `x"}`:              nil,
		`{"tier":"` + strings.Repeat("x", 40_000) + `","zone":"a"}`: {"zone": "a"},
		`{"tier":` + strings.Repeat("1", 40_000) + `}`:              nil,
	} {
		got, err := newVerifier(t, asked).Connection(t.Context(), make256(t, claims))
		if err != nil || !maps.Equal(got.Claims, want) || (got.Claims == nil) != (want == nil) {
			t.Errorf("%.60s: %v, %v, want %v", claims, got, err, want)
		}
	}
	if got, err := newVerifier(t).Connection(t.Context(), make256(t, `{"tier":"vip"}`)); err != nil || got.Claims != nil {
		t.Errorf("a verifier that is asked for none: %v, %v", got, err)
	}
}

// The options are copied, and refused if they name too many claims.
func TestKeptClaimsOptions(t *testing.T) {
	names := []string{"tier"}
	v := newVerifier(t, func(o *auth.Options) { o.Claims = names })
	names[0] = "zone"
	if got, err := v.Connection(t.Context(), make256(t, `{"tier":"vip","zone":"a"}`)); err != nil || !maps.Equal(got.Claims, map[string]string{"tier": "vip"}) {
		t.Errorf("%v, %v", got, err)
	}
	many := make([]string, auth.MaxClaims+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for word, claims := range map[string][]string{"empty": {"tier", ""}, "64 are allowed": many} {
		o := auth.Options{Algorithms: auth.Algorithms(), Keys: allKeys(), Claims: claims}
		if _, err := auth.NewVerifier(o); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%d claims: %v", len(claims), err)
		}
	}
}
