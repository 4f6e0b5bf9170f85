package api_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/api"
)

// Requests are counted by method and outcome, and all unknown methods under one name.
func TestStats(t *testing.T) {
	var observed atomic.Int64
	p := newPlace(t, &api.Options{
		Authorize: func(key string, _ api.Scope) api.Grant { return api.Grant{Known: key != "", Allowed: key == "good"} },
		Observe:   func(string, time.Duration) { observed.Add(1) },
	})
	ask := func(method, key, body string) {
		r := httptest.NewRequestWithContext(testwait.Context(t), http.MethodPost, api.Prefix+method, strings.NewReader(body))
		r.Header.Set("X-API-Key", key)
		_, _ = p.do(r)
	}
	ask("publish", "good", `{"channel":"a","data":1}`)
	ask("publish", "good", `{"channel":"a","data":2}`)
	ask("publish", "good", `{"channel":"nowhere:a","data":2}`)
	ask("publish", "good", `[`)
	ask("publish", "", `{}`)
	ask("publish", "other", `{}`)
	ask("nothing", "good", `{}`)
	ask("../../anything", "good", `{}`)
	ask("info", "good", ``)
	for method, want := range map[string]map[uint32]uint64{
		"publish":         {0: 2, 102: 1, 107: 1, 101: 1, 103: 1},
		"info":            {0: 1},
		"presence":        {},
		api.UnknownMethod: {104: 2},
	} {
		got := p.handler.Stats().Requests[method]
		maps.DeleteFunc(got, func(_ uint32, n uint64) bool { return n == 0 })
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
	if n := len(p.handler.Stats().Requests); n != 16 || observed.Load() != 9 {
		t.Errorf("%d methods, %d requests observed", n, observed.Load())
	}
}
