package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// get asks for a path and returns the answer, whose body is read.
func (p *place) get(method, path string, header http.Header) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(p.t), method, "http://"+p.addr+path, nil)
	must(p.t, err)
	for name, values := range header {
		r.Header[name] = values
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	must(p.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(p.t, err)
	return res, string(body)
}

// TestLimits: clients beyond the limits are refused with status 503, until one leaves.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options gateway.Options
		reason  string
	}{
		{"sessions", gateway.Options{Sessions: 2}, "the node has reached its limit of clients"},
		{"sessions from an address", gateway.Options{SessionsPerAddress: 2}, "address 127.0.0.1 has reached its limit of connections"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, &tt.options)
			p.log.expect(`msg="limit exceeded"`)
			ws, sse := p.client(), p.stream(`{}`, "")
			sse.next()
			_, res, err := p.dialWS(nil)
			if err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("a third WebSocket: %v, %v", res, err)
			}
			if res, body := p.get(http.MethodGet, sseclients.OneWayPath, nil); res.StatusCode != 503 || strings.TrimSpace(body) != tt.reason {
				t.Errorf("a third stream: %d %s", res.StatusCode, body)
			}
			sse.close()
			testwait.True(t, "the stream has left", func() bool { return p.gateway.Len() == 1 })
			p.client()
			_ = ws.conn.Close()
			testwait.True(t, "the WebSocket has left", func() bool { return p.gateway.Len() == 1 })
			p.stream(`{}`, "").next()
		})
	}
}

// TestRefusedHandshakesDoNotCount: what did not become a client takes no place.
func TestRefusedHandshakesDoNotCount(t *testing.T) {
	p := newPlace(t, &gateway.Options{Sessions: 1})
	for range 3 {
		if res, _ := p.get(http.MethodGet, wsclients.Path, nil); res.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("a plain request: %d", res.StatusCode)
		}
		if res, _ := p.get(http.MethodGet, sseclients.OneWayPath+"?cf_connect={", nil); res.StatusCode != http.StatusBadRequest {
			t.Errorf("a broken request: %d", res.StatusCode)
		}
		if res, _ := p.get(http.MethodGet, sseclients.OneWayPath+`?cf_connect={"subs":{"nowhere:a":{}}}`, nil); res.StatusCode != http.StatusBadRequest {
			t.Errorf("an unknown channel: %d", res.StatusCode)
		}
	}
	p.client()
}

func TestOrigins(t *testing.T) {
	for _, tt := range []struct {
		name    string
		allowed []string
		origin  string
		want    bool
	}{
		{"no browser", nil, "", true},
		{"the same host", nil, "http://HOST", true},
		{"the same host over TLS", nil, "https://HOST", true},
		{"another port", nil, "http://127.0.0.1:1", false},
		{"another host", nil, "https://evil.example", false},
		{"the host as a prefix", nil, "http://HOST.evil.example", false},
		{"a sandboxed page", nil, "null", false},
		{"listed", []string{"https://good.example"}, "https://good.example", true},
		{"listed in another case", []string{"https://good.example"}, "HTTPS://Good.Example", true},
		{"listed with another scheme", []string{"https://good.example"}, "http://good.example", false},
		{"listed with another port", []string{"https://good.example"}, "https://good.example:8443", false},
		{"below a listed one", []string{"https://good.example"}, "https://x.good.example", false},
		{"all", []string{"*"}, "null", true},
		{"nonsense", nil, "http://[", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, &gateway.Options{Origins: tt.allowed})
			if !tt.want {
				p.log.expect("origin not allowed")
			}
			header := http.Header{}
			if tt.origin != "" {
				header.Set("Origin", strings.ReplaceAll(tt.origin, "HOST", p.addr))
			}
			_, res, err := p.dialWS(header)
			if got := err == nil; got != tt.want {
				t.Errorf("WebSocket: %v", err)
			}
			if !tt.want {
				if res == nil || res.StatusCode != http.StatusForbidden {
					t.Errorf("WebSocket: %v", res)
				}
				if res, _ := p.get(http.MethodGet, sseclients.OneWayPath, header); res.StatusCode != http.StatusForbidden {
					t.Errorf("stream: %d", res.StatusCode)
				}
				return
			}
			s := p.stream(`{}`, "", header)
			if got := s.res.Header.Get("Access-Control-Allow-Origin"); got != header.Get("Origin") {
				t.Errorf("the page of %q is let read by the header %q", header.Get("Origin"), got)
			}
		})
	}
}

// TestMethods: only GET makes a client.
func TestMethods(t *testing.T) {
	p := newPlace(t, nil)
	for _, path := range []string{wsclients.Path, sseclients.OneWayPath} {
		for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodPut, http.MethodOptions} {
			if res, _ := p.get(method, path, nil); res.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, res.StatusCode)
			}
		}
	}
	if res, _ := p.get(http.MethodGet, "/connection/other", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", res.StatusCode)
	}
}
