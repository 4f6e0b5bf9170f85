package config_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/config"
)

func TestBytes(t *testing.T) {
	tests := []struct {
		text string
		want config.Bytes
		ok   bool
		back string // what String returns, when it is not text
	}{
		{text: "0", ok: true},
		{text: "1", want: 1, ok: true},
		{text: "64KiB", want: 64 << 10, ok: true},
		{text: "16 MiB", want: 16 << 20, ok: true, back: "16MiB"},
		{text: "2GiB", want: 2 << 30, ok: true},
		{text: "1kB", want: 1000, ok: true, back: "1000"},
		{text: "1KB", want: 1000, ok: true, back: "1000"},
		{text: "1MB", want: 1e6, ok: true, back: "1000000"},
		{text: "1GB", want: 1e9, ok: true, back: "1000000000"},
		{text: "7B", want: 7, ok: true, back: "7"},
		{text: "1024", want: 1024, ok: true, back: "1KiB"},
		{text: "9223372036854775807", want: math.MaxInt64, ok: true},
		{text: "8589934591GiB", want: (math.MaxInt64 >> 30) << 30, ok: true},
		{text: "8589934592GiB"},
		{text: "9223372036854775808"},
		{text: ""},
		{text: "B"},
		{text: "-1"},
		{text: "+1"},
		{text: "1.5MiB"},
		{text: "1  MiB"},
		{text: "1mib"},
		{text: "1_000"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var got config.Bytes
			err := got.UnmarshalText([]byte(tt.text))
			if (err == nil) != tt.ok || got != tt.want {
				t.Fatalf("got %d, %v, want %d", got, err, tt.want)
			}
			if tt.back == "" {
				tt.back = tt.text
			}
			if text, _ := got.MarshalText(); tt.ok && string(text) != tt.back {
				t.Errorf("text is %q, want %q", text, tt.back)
			}
		})
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "10m": 10 * time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second,
		"250ms": 250 * time.Millisecond, "10s": 10 * time.Second, "20h": 20 * time.Hour, "-5m": -5 * time.Minute,
	} {
		var got config.Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
		if back, _ := got.MarshalText(); string(back) != text {
			t.Errorf("%s comes back as %s", text, back)
		}
	}
	for _, text := range []string{"", "5", "m", "five minutes", "1d"} {
		if err := new(config.Duration).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestHash(t *testing.T) {
	text := config.HashKey("k")
	var h config.Hash
	if err := h.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if !h.Match("k") || h.Match("K") || h.Match("") {
		t.Error("the hash does not match its key and nothing else")
	}
	if (config.Hash{}).Match("") || (config.Hash{}).Match("k") {
		t.Error("the zero hash matches a key")
	}
	key := config.APIKey{Name: "n", Hash: h}
	digits := strings.TrimPrefix(text, "sha256:")
	encoded, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	printed := fmt.Sprint(key, &key, h) + h.String() + string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		printed += fmt.Sprintf(verb, h) + fmt.Sprintf(verb, key)
	}
	if strings.Contains(strings.ToLower(printed), digits[:8]) || strings.Contains(printed, fmt.Sprint(h[0])+" "+fmt.Sprint(h[1])) {
		t.Errorf("a hash was printed: %s", printed)
	}
}
