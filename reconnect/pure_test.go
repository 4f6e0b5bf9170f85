package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// The bounds are min(most, base·2ⁿ), whatever the numbers, also if base·2ⁿ overflows a duration.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "most"))
		base := time.Duration(rapid.Int64Range(1, int64(most)).Draw(t, "base"))
		resets := rapid.SliceOf(rapid.IntRange(0, 99)).Draw(t, "resets")
		n := 0
		for i, got := range reconnect.Bounds(base, most, 100, resets...) {
			if slices.Contains(resets, i) {
				n = 0
			}
			want := most
			if exact := math.Ldexp(float64(base), n); exact < float64(most) {
				want = min(base<<n, most)
			}
			if got != want {
				t.Fatalf("wait %d, the %d. of its series: %v, want %v", i, n, got, want)
			}
			n++
		}
	})
}

// Sessions are spread evenly, in the requested number, and as few as possible leave.
func TestSpread(t *testing.T) {
	address := rapid.Map(rapid.IntRange(0, 9), func(n int) string { return fmt.Sprint(n) })
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfN(address, 0, 30).Draw(t, "at")
		wanted := rapid.SliceOfNDistinct(address, 1, 10, rapid.ID).Draw(t, "wanted")
		n := rapid.IntRange(0, 30).Draw(t, "n")
		leaves, dials := reconnect.Spread(at, wanted, n)
		count, have, stay := make(map[string]int), make(map[string]int), 0
		for i, a := range at {
			have[a]++
			if !leaves[i] {
				count[a]++
				stay++
			}
		}
		for _, a := range dials {
			count[a]++
		}
		if len(leaves) != len(at) || stay+len(dials) != n {
			t.Fatalf("%d stay, %d are dialed, %d are wanted", stay, len(dials), n)
		}
		least := n / len(wanted)
		for a, c := range count {
			if !slices.Contains(wanted, a) || c > least+1 {
				t.Fatalf("%d at %s: %v", c, a, count)
			}
		}
		most, richer := 0, 0 // the number of sessions that can stay
		for _, a := range wanted {
			if count[a] < least {
				t.Fatalf("%d at %s: %v", count[a], a, count)
			}
			if most += min(have[a], least); have[a] > least {
				richer++
			}
		}
		if most += min(richer, n%len(wanted)); stay != most {
			t.Fatalf("%d stay of %v, %d could", stay, at, most)
		}
	})
}

// Invalid options are refused; zero and negative values have the documented meanings.
func TestOptions(t *testing.T) {
	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	for name, o := range map[string]*reconnect.Options{
		"nil": nil, "no address": {}, "sessions": {Addresses: []string{"a"}, Sessions: -1},
		"base": {Addresses: []string{"a"}, Base: -1}, "cap": {Addresses: []string{"a"}, Cap: -1},
		"cap below base": {Addresses: []string{"a"}, Base: 2, Cap: 1}, "policy": {Addresses: []string{"a"}, Policy: 9},
	} {
		if _, err := reconnect.New(client, o); !errors.Is(err, reconnect.ErrOptions) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	dial := func(context.Context, string, func(*session.Handler) *session.Handler) (*session.Session, error) {
		return nil, nil
	}
	for _, o := range []reconnect.Options{
		{Network: "tcp"},
		{Handler: new(session.Handler)},
		{Attach: func(int, string) *session.Attach { return nil }},
		{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil }},
	} {
		o.Addresses, o.DialSession = []string{"a"}, dial
		if _, err := reconnect.New(nil, &o); !errors.Is(err, reconnect.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := reconnect.New(nil, &reconnect.Options{Addresses: []string{"a"}}); !errors.Is(err, reconnect.ErrOptions) {
		t.Errorf("no client: error %v", err)
	}
	for _, c := range []struct{ base, most, wantBase, wantMost time.Duration }{
		{0, 0, 100 * time.Millisecond, 30 * time.Second},
		{time.Minute, 0, time.Minute, time.Minute},
		{0, time.Millisecond, time.Millisecond, time.Millisecond},
		{time.Hour, 2 * time.Hour, time.Hour, 2 * time.Hour},
	} {
		o, err := reconnect.Defaults(&reconnect.Options{Addresses: []string{"b", "a", "b"}, Base: c.base, Cap: c.most, StableAfter: -1})
		if err != nil || o.Base != c.wantBase || o.Cap != c.wantMost {
			t.Errorf("%v to %v is read as %v to %v, %v", c.base, c.most, o.Base, o.Cap, err)
		}
		if !slices.Equal(o.Addresses, []string{"b", "a"}) || o.Network != "tcp" || o.StableAfter != 0 || o.DialTimeout != 10*time.Second {
			t.Errorf("%+v", o)
		}
	}
	for s := range reconnect.Failed + 2 {
		if (s.String() == fmt.Sprintf("state(%d)", s)) != (s == 0 || s > reconnect.Failed) {
			t.Errorf("%d is %q", s, s.String())
		}
	}
}
