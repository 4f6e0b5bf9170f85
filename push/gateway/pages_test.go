package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// browserAsks is the header of an EventSource in a page of another origin.
var browserAsks = http.Header{"Accept": {"text/event-stream"}, "Origin": {"https://page.example"}}

func pagesMayConnect() *gateway.Options {
	return &gateway.Options{Origins: []string{"https://page.example"}}
}

// wantRetry fails the test unless a body is that of a stream that ends and says when to come again.
func wantRetry(t *testing.T, res *http.Response, body string) {
	t.Helper()
	first, _, _ := strings.Cut(body, "\n")
	ms, err := strconv.Atoi(strings.TrimPrefix(first, "retry: "))
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || err != nil || ms < 1000 || ms > 4000 ||
		strings.Contains(body, "data:") || res.Header.Get("Access-Control-Allow-Origin") != "https://page.example" {
		t.Errorf("status %d, header %v, body %q", res.StatusCode, res.Header, body)
	}
}

// A refusal that is temporary does not end an EventSource for ever (Yaffle/EventSource#88, galaxyproject/galaxy#22629).
func TestTemporaryRefusalsOfStreams(t *testing.T) {
	o := pagesMayConnect()
	o.Sessions = 1
	p := newPlace(t, o)
	p.log.expect(`msg="limit exceeded"`)
	one := p.stream("", "", browserAsks)
	one.next()
	if ms, err := strconv.Atoi(one.retry); err != nil || ms < 1000 || ms > 4000 {
		t.Errorf("a stream says to come again in %q ms", one.retry)
	}
	res, body := p.get(http.MethodGet, sseclients.OneWayPath, browserAsks)
	wantRetry(t, res, body)
	if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, nil); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("no browser: status %d, header %v", res.StatusCode, res.Header)
	}
	fetch := http.Header{"Origin": browserAsks["Origin"]}
	if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, fetch); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" || res.Header.Get("Access-Control-Expose-Headers") != "Retry-After" {
		t.Errorf("a fetch of a page: status %d, header %v", res.StatusCode, res.Header)
	}
	one.close()
	testwait.True(t, "the client is gone", func() bool { return p.gateway.Len() == 0 })
	p.shutdown()
	res, body = p.get(http.MethodGet, sseclients.OneWayPath, browserAsks)
	wantRetry(t, res, body)
}

// So it is while a node waits for its broker.
func TestWaiting(t *testing.T) {
	h := gateway.Waiting([]string{"https://page.example"}, "not\nready")
	for _, tt := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{sseclients.OneWayPath, browserAsks, http.StatusOK},
		{sseclients.OneWayPath, http.Header{"Accept": {"text/event-stream"}, "Origin": {"https://evil.example"}}, http.StatusForbidden},
		{sseclients.OneWayPath, nil, http.StatusServiceUnavailable},
		{wsclients.Path, nil, http.StatusServiceUnavailable},
		{"/api/publish", nil, http.StatusServiceUnavailable},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header = tt.header.Clone()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		res := w.Result()
		if res.StatusCode != tt.want {
			t.Errorf("%s %v: status %d", tt.path, tt.header, res.StatusCode)
		}
		if tt.want == http.StatusOK {
			wantRetry(t, res, w.Body.String())
		}
		_ = res.Body.Close()
	}
}

// Preflights are answered, and a page sees why it is refused (dunglas/mercure#535, dunglas/mercure#613).
func TestOtherOrigins(t *testing.T) {
	p := newPlace(t, pagesMayConnect())
	p.log.expect("origin not allowed")
	asks := http.Header{
		"Origin": {"https://page.example"}, "Access-Control-Request-Method": {"GET"},
		"Access-Control-Request-Headers": {"last-event-id, cache-control"},
	}
	for _, path := range []string{sseclients.OneWayPath, wsclients.Path} {
		res, _ := p.get(http.MethodOptions, path, asks)
		h := res.Header
		if res.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "https://page.example" ||
			h.Get("Access-Control-Allow-Headers") != "last-event-id, cache-control" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "GET") {
			t.Errorf("%s: status %d, header %v", path, res.StatusCode, h)
		}
	}
	asks.Set("Origin", "https://evil.example")
	if res, _ := p.get(http.MethodOptions, sseclients.OneWayPath, asks); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another page: status %d, header %v", res.StatusCode, res.Header)
	}
	res, body := p.get(http.MethodGet, sseclients.OneWayPath+"?cf_connect={", browserAsks)
	if res.StatusCode != http.StatusBadRequest || body == "" || res.Header.Get("Access-Control-Allow-Origin") != "https://page.example" {
		t.Errorf("a refusal: status %d, header %v", res.StatusCode, res.Header)
	}
	if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, http.Header{"Origin": {"https://page.example", "https://page.example"}}); res.StatusCode != http.StatusForbidden {
		t.Errorf("two origins: status %d", res.StatusCode)
	}
}

// A polyfill that may not set the header says in the query where it was (Yaffle/EventSource#162).
func TestLastEventIDInTheQuery(t *testing.T) {
	p := newPlace(t, nil)
	p.publish("a", `1`)
	c := p.stream(`{"subs":{"a":{}}}`, "")
	c.next()
	p.publish("a", `2`)
	c.next()
	last := c.ids[len(c.ids)-1]
	c.close()
	p.publish("a", `3`)
	again := p.stream(`{"subs":{"a":{}}}`, "?"+last)
	if hello := again.next(); !strings.Contains(hello.data, `"recovered":true`) || !strings.Contains(hello.data, `"data":3`) || strings.Contains(hello.data, `"data":2`) {
		t.Errorf("the stream begins with %s", hello.data)
	}
}

// A client that asks for Protobuf is told that it is not spoken, instead of being sent JSON (centrifugal/centrifuge-swift#76); one that
// offers the JSON subprotocol gets it.
func TestForms(t *testing.T) {
	p := newPlace(t, nil)
	for _, tt := range []struct {
		path, query, offered string
		status               int
		chosen               string
	}{
		{wsclients.Path, "", "", http.StatusSwitchingProtocols, ""},
		{wsclients.Path, "?format=json", "centrifuge-json", http.StatusSwitchingProtocols, "centrifuge-json"},
		{wsclients.Path, "", "centrifuge-protobuf, centrifuge-json", http.StatusSwitchingProtocols, "centrifuge-json"},
		{wsclients.Path, "?format=protobuf", "", http.StatusSwitchingProtocols, ""},
		{wsclients.Path, "?cf_protocol=protobuf&cf_protocol_version=v2", "", http.StatusSwitchingProtocols, ""},
		{wsclients.Path, "", "centrifuge-protobuf", http.StatusSwitchingProtocols, "centrifuge-protobuf"},
		{wsclients.OneWayPath, "", "", http.StatusSwitchingProtocols, ""},
		{wsclients.OneWayPath, "?format=protobuf", "", http.StatusBadRequest, ""},
	} {
		header := http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}
		if tt.offered != "" {
			header.Set("Sec-WebSocket-Protocol", tt.offered)
		}
		r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodGet, "http://"+p.addr+tt.path+tt.query, nil)
		must(t, err)
		r.Header = header
		res, err := http.DefaultTransport.RoundTrip(r)
		must(t, err)
		var body []byte
		if res.StatusCode != http.StatusSwitchingProtocols {
			body, err = io.ReadAll(res.Body)
			must(t, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.status || tt.status == http.StatusBadRequest && !strings.Contains(string(body), "Protobuf") {
			t.Errorf("%s %s: status %d, %s", tt.query, tt.offered, res.StatusCode, body)
		}
		if got := res.Header.Get("Sec-WebSocket-Protocol"); got != tt.chosen {
			t.Errorf("%s: subprotocol %q, want %q", tt.offered, got, tt.chosen)
		}
	}
}
