package push_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
)

func ExampleNamespace() {
	fmt.Printf("%q %q\n", push.Namespace("quotes:ACME:bid"), push.Namespace("news"))
	// Output: "quotes" ""
}

func TestCheckNames(t *testing.T) {
	for name, tc := range map[string]struct {
		channel string
		want    string // part of the error; empty if the name is valid
	}{
		"plain":        {"news", ""},
		"namespace":    {"quotes:ACME", ""},
		"odd but good": {"a b*>./ü:€", ""},
		"longest":      {strings.Repeat("x", push.MaxChannelLen), ""},
		"empty":        {"", "is empty"},
		"too long":     {strings.Repeat("x", push.MaxChannelLen+1), "256 bytes, at most 255"},
		"not UTF-8":    {"a\xff", "not valid UTF-8"},
		"NUL":          {"a\x00b", "control character (U+0000)"},
		"no namespace": {":x", "begins with a colon"},
		"line end":     {"a\n", "control character (U+000A)"},
		"delete":       {"a\x7f", "control character (U+007F)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := push.CheckChannel(tc.channel)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("channel: %v, want %q", err, tc.want)
			}
			err = push.CheckKey(tc.channel)
			if bad := tc.want != "" && tc.channel != "" && tc.channel != ":x"; bad != (err != nil) {
				t.Errorf("key: %v", err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	said := fmt.Errorf("subscribe: %w", push.ErrLimitExceeded.WithMessage("at most %d", 3))
	if !errors.Is(said, push.ErrLimitExceeded) || errors.Is(said, push.ErrBadRequest) {
		t.Error("errors are told apart by their code alone")
	}
	var e *push.Error
	if !errors.As(said, &e) || e.Message != "at most 3" || e.Error() != "at most 3 (code 106)" {
		t.Errorf("got %v", e)
	}
	if push.ErrLimitExceeded.Message != "limit exceeded" {
		t.Error("WithMessage changed the original")
	}
	if !push.ErrTooManyRequests.WithMessage("x").Temporary {
		t.Error("WithMessage forgot that the error is temporary")
	}
}

func TestDisconnectReconnect(t *testing.T) {
	for code, want := range map[uint16]bool{3000: true, 3499: true, 3500: false, 3999: false, 4000: true, 4499: true, 4500: false, 4999: false} {
		if got := (push.Disconnect{Code: code}).Reconnect(); got != want {
			t.Errorf("code %d: reconnect %t", code, got)
		}
	}
}

func TestMode(t *testing.T) {
	for _, m := range []push.Mode{push.Stream, push.Value, push.Table} {
		text, err := m.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back push.Mode
		if err := back.UnmarshalText(text); err != nil || back != m {
			t.Errorf("%v: %v %v", m, back, err)
		}
	}
	var m push.Mode
	if err := m.UnmarshalText([]byte("list")); err == nil || !strings.Contains(err.Error(), "stream, value or table") {
		t.Errorf("an unknown mode: %v", err)
	}
	if got := push.Mode(9).String(); got != "mode(9)" {
		t.Error(got)
	}
}

func TestSlow(t *testing.T) {
	for s, want := range map[push.Slow][3]string{ // in a stream, value and table
		push.SlowAuto:        {"lose", "conflate", "conflate"},
		push.SlowConflate:    {"use lose", "conflate", "conflate"},
		push.SlowLose:        {"lose", "use conflate", "use conflate"},
		push.SlowUnsubscribe: {"unsubscribe", "unsubscribe", "unsubscribe"},
		push.SlowDisconnect:  {"disconnect", "disconnect", "disconnect"},
	} {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back push.Slow
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%v: %v %v", s, back, err)
		}
		for i, m := range []push.Mode{push.Stream, push.Value, push.Table} {
			got, err := s.In(m)
			if said := fmt.Sprint(got, err); !strings.Contains(said, want[i]) || (err != nil) != strings.HasPrefix(want[i], "use") {
				t.Errorf("%v in a %v: %s, not %s", s, m, said, want[i])
			}
		}
	}
	if _, err := push.Slow(9).In(push.Stream); err == nil {
		t.Error("there is no such policy")
	}
	var s push.Slow
	if err := s.UnmarshalText([]byte("wait")); err == nil || !strings.Contains(err.Error(), "unsubscribe or disconnect") {
		t.Errorf("an unknown policy: %v", err)
	}
	if got := push.Slow(9).String(); got != "slow(9)" {
		t.Error(got)
	}
}

func TestSize(t *testing.T) {
	p := push.Publication{Key: "abc", Data: []byte("12345"), Tags: map[string]string{"k": "value"}}
	if got := p.Size(); got != 3+5+6 {
		t.Errorf("size %d", got)
	}
}

// A pattern means the same as the regular expression with .* for each star.
func FuzzMatchChannel(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""},
		{"*", "stream:x"},
		{"a*a", "a"},
		{"a*a", "aba"},
		{"**", "x"},
		{"*ab*ab", "abab"},
		{"*ab*ab", "ab"},
		{"a*b*c", "abbc"},
		{"ticks:*", "ticks:AAPL"},
		{"*.c", "a.b"},
		{"\xff*", "\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 50 || len(name) > 200 {
			return
		}
		literal := func(s string) string { // byte for byte, also where it is no UTF-8
			out := strings.Builder{}
			for _, b := range []byte(s) {
				fmt.Fprintf(&out, "(?:\\x{%x})", b)
			}
			return out.String()
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = literal(parts[i])
		}
		latin := make([]rune, 0, len(name))
		for _, b := range []byte(name) {
			latin = append(latin, rune(b))
		}
		want := regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(string(latin))
		if got := push.MatchChannel(pattern, name); got != want {
			t.Errorf("%q matches %q: %t, the expression says %t", pattern, name, got, want)
		}
	})
}
