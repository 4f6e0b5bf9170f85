package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/pushtest"
)

// caller is the address of all requests of TestRetryAfter.
const caller = "192.0.2.1:1"

// occupy admits a client that stays until the end of the test.
func (p *place) occupy() {
	p.t.Helper()
	c := new(gateway.Client)
	kind := gateway.NewKind(gateway.Encoder{Form: gateway.Protobuf{}, Framing: gateway.Bare{}}, gateway.TwoWay)
	must(p.t, c.Arrive(p.gateway, kind, nil, &http.Request{RemoteAddr: caller}))
	c.Arrived()
	p.t.Cleanup(c.Refused)
}

// A client that is refused for now is told when to come again, by every transport over HTTP and for every reason.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options gateway.Options
		refuse  func(p *place)
		status  int
		logs    bool
	}{
		{"draining", gateway.Options{}, func(p *place) { must(p.t, p.gateway.Drain(p.t.Context(), 0)) }, http.StatusServiceUnavailable, false},
		{"shut down", gateway.Options{}, func(p *place) { must(p.t, p.shutdownWithin(patience)) }, http.StatusServiceUnavailable, false},
		{"full", gateway.Options{Sessions: 1}, (*place).occupy, http.StatusServiceUnavailable, true},
		{"full for the address", gateway.Options{SessionsPerAddress: 1}, (*place).occupy, http.StatusServiceUnavailable, true},
		{"over the rate", gateway.Options{Connects: 1}, (*place).occupy, http.StatusServiceUnavailable, true},
		{"over the rate of the address", gateway.Options{ConnectsPerAddress: 1}, (*place).occupy, http.StatusTooManyRequests, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFakeTime(t, &tt.options, func(t *testing.T, p *place) {
				if tt.logs {
					p.log.expect(`msg="limit exceeded"`)
				}
				tt.refuse(p)
				for path, method := range map[string]string{
					wsclients.Path: http.MethodGet, wsclients.OneWayPath: http.MethodGet,
					sseclients.Path + "?cf_connect={}": http.MethodGet, sseclients.OneWayPath: http.MethodGet,
					httpstream.Path: http.MethodPost, httpstream.OneWayPath: http.MethodPost,
				} {
					w := p.call(method, path, nil)
					seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
					if w.Code != tt.status || err != nil || seconds < 1 || seconds > 30 {
						t.Errorf("%s: status %d, header %v", path, w.Code, w.Header())
					}
					if !strings.HasPrefix(path, "/connection/sse") && !strings.HasPrefix(path, "/connection/uni_sse") {
						continue
					}
					w = p.call(method, path, http.Header{"Accept": {"text/event-stream"}}) // a browser's EventSource looks at no header
					if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "retry: ") {
						t.Errorf("%s of an EventSource: status %d, %s", path, w.Code, w.Body)
					}
				}
			})
		})
	}
}

// call serves a request without a connection.
func (p *place) call(method, path string, header http.Header) *httptest.ResponseRecorder {
	p.t.Helper()
	body := ""
	if method == http.MethodPost {
		body = "{}"
	}
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.RemoteAddr = caller
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	p.gateway.Handler().ServeHTTP(w, r)
	return w
}

// Commands that cannot reach the node of their session are refused for now; postBody looks at the header.
func TestEmulationUnreachable(t *testing.T) {
	withEmulation(t, nil, func(t *testing.T, faulty *pushtest.Faulty, a, b *emulationNode) {
		faulty.Fail(pushtest.OpTell, errors.New("the broker is away"))
		if got := a.post(b.hub.ID(), "secret", "{}"); got != http.StatusServiceUnavailable {
			t.Errorf("status %d", got)
		}
		faulty.Fail(pushtest.OpTell, nil)
	})
}
