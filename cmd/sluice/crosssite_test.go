package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// ask sends a request to a node and returns the status. A request with a body is a POST.
func ask(t *testing.T, url, body string, header http.Header, host string) int {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header, r.Host = header, host
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// Pages of other sites can neither publish to a developer's node nor read from it: not by a form, not in the background, and not under a host
// name of their own that resolves to it. Programs can.
func TestPagesOfOtherSites(t *testing.T) {
	p := startNode(t, "--insecure")
	public, internal := "http://"+p.public, "http://"+p.internal
	const publish = `{"channel": "news", "data": 1}`
	upgrade := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	rebound := upgrade.Clone()
	rebound.Set("Origin", "http://evil.example:8000")
	form := http.Header{"Content-Type": {"text/plain"}, "Origin": {"https://evil.example"}}
	for _, tt := range []struct {
		name, url, body string
		header          http.Header
		host            string
		want            int
	}{
		{"curl", public + "/api/publish", publish, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "", 200},
		{"own page", public + "/api/publish", publish, http.Header{"Origin": {public}}, "", 200},
		{"by the name localhost", public + "/api/publish", publish, nil, "localhost:8000", 200},
		{"form of another site", public + "/api/publish", publish, form, "", 403},
		{"sandboxed form", public + "/api/publish", publish, http.Header{"Origin": {"null"}}, "", 403},
		{"another name", public + "/api/publish", publish, nil, "evil.example:8000", 421},
		{"WebSocket under another name", public + "/connection/websocket", "", rebound, "evil.example:8000", 421},
		{"stream under another name", public + "/connection/uni_sse", "", nil, "evil.example", 421},
		{"profile under another name", internal + "/debug/pprof/cmdline", "", nil, "evil.example:9000", 421},
		{"profile in the background", internal + "/debug/pprof/cmdline", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, "", 403},
		{"profile", internal + "/debug/pprof/cmdline", "", nil, "", 200},
	} {
		if got := ask(t, tt.url, tt.body, tt.header, tt.host); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
}
