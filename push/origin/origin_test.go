package origin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/origin"
)

// Settings that no page can match are refused, with a proposal.
func TestCheck(t *testing.T) {
	for _, s := range []string{
		"*", "null", "https://example.org", "http://localhost:3000", "HTTPS://Example.ORG", "https://example.org:443", "https://*.example.org",
		"https://*.example.org:8443", "http://[::1]:8000", "http://[::1]", "http://127.0.0.1", "chrome-extension://abcdef", "capacitor://localhost",
	} {
		if err := origin.Check(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for s, want := range map[string]string{
		"":                          "use the form",
		"example.org":               "use the form",
		"https://":                  "use the form",
		"://example.org":            "use the form",
		"https://example.org/":      "leave out",
		"https://example.org/path":  "leave out",
		"https://a@example.org":     "leave out",
		"https://example.org?":      "leave out",
		"https://bücher.example":    "Punycode",
		"https://a b":               "character",
		"https://:443":              "host is missing",
		"https://example.org:":      "port",
		"https://example.org:https": "port",
		"https://::1":               "brackets",
		"https://*":                 "star",
		"https://*.x":               "star",
		"https://*.":                "star",
		"https://a.*.example.org":   "star",
		"https://*example.org":      "star",
	} {
		if err := origin.Check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
}

func TestAllow(t *testing.T) {
	list := []string{"https://good.example", "https://*.wide.example", "http://port.example:8080", "https://written.example:443", "https://*.x", "junk"}
	for _, tt := range []struct {
		origin, host string
		want         bool
	}{
		{"", "node", true},
		{"https://good.example", "node", true},
		{"HTTPS://Good.Example", "node", true},
		{"https://good.example:443", "node", true},
		{"http://good.example", "node", false},
		{"https://good.example:8443", "node", false},
		{"https://x.good.example", "node", false},
		{"https://good.example.evil.example", "node", false},
		{"https://a.wide.example", "node", true},
		{"https://a.b.wide.example", "node", true},
		{"https://wide.example", "node", false},
		{"https://evilwide.example", "node", false},
		{"http://port.example:8080", "node", true},
		{"http://port.example", "node", false},
		{"https://written.example", "node", true},
		{"https://a.x", "node", false},
		{"junk", "node", false},
		{"null", "node", false},
		{"https://*.wide.example", "node", false},
		// The node's own host, with and without proxies.
		{"http://node:8000", "node:8000", true},
		{"https://node:8000", "NODE:8000", true},
		{"http://node:8000", "node", true},
		{"https://node", "node:443", true},
		{"http://node", "node:80", true},
		{"https://node", "node", true},
		{"http://node", "node:443", false},
		{"http://node:3000", "node:8000", false},
		{"http://node", "node:8000", false},
		{"http://[::1]:8000", "[::1]:8000", true},
		{"http://[::1]", "[::1]", true},
		{"http://node", "", false},
		{"http://[", "[", false},
	} {
		if got := origin.New(list).AllowOrigin(tt.origin, tt.host); got != tt.want {
			t.Errorf("a page of %q at %q: %t", tt.origin, tt.host, got)
		}
	}
	if !origin.New([]string{"*"}).AllowOrigin("null", "node") || !origin.New([]string{"null"}).AllowOrigin("null", "node") {
		t.Error("a page without an origin is refused")
	}
	for n, want := range []bool{true, true, false} {
		q := &http.Request{Host: "node", Header: http.Header{"Origin": []string{"http://node", "http://node"}[:n]}}
		if n == 0 {
			q.Header = http.Header{}
		}
		if got := new(origin.Rules).Allow(q); got != want {
			t.Errorf("%d origins: %t", n, got)
		}
	}
}

func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8000": true, "LOCALHOST.": true, "a.localhost:1": true, "127.0.0.1:8000": true, "127.1.2.3": true, "[::1]:8000": true,
		"[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"evil.example": false, "evil.example:8000": false, "localhost.evil.example": false, "10.0.0.1": false, "": false, "127.0.0.1.evil.example": false, "0x7f.1": false,
	} {
		if got := origin.Local(&http.Request{Host: host}); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

// An allowed origin is one that a browser can send, and never parses as two origins.
func FuzzAllow(f *testing.F) {
	f.Add("https://*.example.org", "https://a.example.org", "node:8000")
	f.Add("null", "http://[::1]", "[::1]:80")
	f.Fuzz(func(t *testing.T, setting, from, host string) {
		if setting == "*" {
			return
		}
		allowed := origin.New([]string{setting}).AllowOrigin(from, host)
		if err := origin.Check(setting); err != nil && allowed != new(origin.Rules).AllowOrigin(from, host) {
			t.Errorf("%q is refused as a setting and matters for %q at %q", setting, from, host)
		}
		if allowed && from != "" && from != "null" && (origin.Check(from) != nil || strings.ContainsAny(from, " \r\n\x00*")) {
			t.Errorf("%q is allowed, which no browser sends", from)
		}
	})
}
