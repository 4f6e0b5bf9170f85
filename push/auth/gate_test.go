package auth_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-push/sluice/push/auth"
)

// gate counts, and refuses with err.
type gate struct {
	err             error
	entered, inside int
}

func (g *gate) Enter(context.Context) error {
	if g.err == nil {
		g.entered++
		g.inside++
	}
	return g.err
}

func (g *gate) Leave() { g.inside-- }

// Each check with a public key passes the gate, once, and leaves it, whatever comes of it. Secrets do not, nor do tokens that are refused before.
func TestGate(t *testing.T) {
	g := new(gate)
	v := newVerifier(t, func(o *auth.Options) { o.Gate = g })
	for _, name := range auth.Algorithms() {
		want := 1
		if auth.IsSymmetric(name) {
			want = 0
		}
		header := `{"alg":"` + name + `","kid":"` + name + `"}`
		good, bad := sign(t, name, known(name).private, header, `{"sub":"ann"}`), sign(t, name, pairs()[name][1].private, header, `{"sub":"ann"}`)
		for reason, token := range map[string]string{"accepted": good, "signature": bad} {
			g.entered = 0
			if _, err := v.Connection(t.Context(), token); reasonOf(t, err) != reason || g.entered != want || g.inside != 0 {
				t.Errorf("%s: %v, want %s; %d checks, %d are still inside", name, err, reason, g.entered, g.inside)
			}
		}
		g.entered = 0
		unknown := sign(t, name, known(name).private, `{"alg":"`+name+`","kid":"none"}`, `{"sub":"ann"}`)
		for _, token := range []string{unknown, good[:len(good)-1] + "!", "x." + good} {
			if _, err := v.Connection(t.Context(), token); err == nil || g.entered != 0 {
				t.Errorf("%s: %v, %d checks", name, err, g.entered)
			}
		}
		g.err = errors.New("full")
		reason := "busy"
		if want == 0 {
			reason = "accepted"
		}
		if _, err := v.Connection(t.Context(), good); reasonOf(t, err) != reason || want == 1 && !errors.Is(err, g.err) || g.inside != 0 {
			t.Errorf("%s at a full gate: %v, want %s; %d are inside", name, err, reason, g.inside)
		}
		g.err = nil
	}
}
