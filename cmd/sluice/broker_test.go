package main_test

import (
	"strings"
	"testing"

	main "github.com/sluice-push/sluice/cmd/sluice"
)

// Clients get data that other programs publish into the broker as JSON, or not at all.
func TestJSONData(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for data, want := range map[string]string{
		`{"a": 1}`: `{"a": 1}`,
		"[1,\n2]":  `[1,2]`,
		"hello":    `"hello"`,
		deep(128):  deep(128),
	} {
		if got, err := main.JSONData([]byte(data)); err != nil || string(got) != want {
			t.Errorf("%.40q became %.40q, %v", data, got, err)
		}
	}
	for _, data := range []string{"\xff", deep(129), `{"a":"\ud800"}`} {
		if got, err := main.JSONData([]byte(data)); err == nil {
			t.Errorf("%.40q became %.40q", data, got)
		}
	}
}
