package sink_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/loadtest/sink"
)

// node serves answers with a status, and counts requests.
func node(t *testing.T, status int, answer string, requests *int) *sink.HTTP {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*requests++ // the test asks one after the other
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	h, err := sink.NewHTTP(s.URL, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A publication goes to the next node if a node does not accept it for now, and the next publication goes there first. A lasting refusal, and an error that leaves
// open whether the node has it, are final.
func TestFailover(t *testing.T) {
	const accepted, unavailable, unknown = `{"result":{}}`, `{"error":{"code":111,"message":"later"}}`, `{"error":{"code":102,"message":"unknown channel"}}`
	for name, tt := range map[string]struct {
		status            int
		answer            string
		first, second     int // requests of two publications
		isRefusal, failed bool
	}{
		"status 503":      {status: 503, answer: "busy", first: 1, second: 2},
		"unavailable":     {status: 200, answer: unavailable, first: 1, second: 2},
		"accepted":        {status: 200, answer: accepted, first: 2},
		"unknown channel": {status: 200, answer: unknown, first: 2, isRefusal: true, failed: true},
		"status 502":      {status: 502, answer: "", first: 2, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var first, second int
			f := sink.NewFailover([]*sink.HTTP{node(t, tt.status, tt.answer, &first), node(t, 200, accepted, &second)}, time.Minute)
			defer f.Close()
			for range 2 {
				err := f.Publish(t.Context(), "ticks:1", []byte("1"))
				if _, refused := errors.AsType[*sink.Refusal](err); (err != nil) != tt.failed || refused != tt.isRefusal {
					t.Errorf("%v", err)
				}
			}
			if first != tt.first || second != tt.second {
				t.Errorf("%d and %d requests, want %d and %d", first, second, tt.first, tt.second)
			}
		})
	}
}

// When all nodes refuse for as long as is waited, the refusal is returned.
func TestFailoverEnds(t *testing.T) {
	var first, second int
	f := sink.NewFailover([]*sink.HTTP{node(t, 503, "busy", &first), node(t, 503, "busy", &second)}, 0)
	defer f.Close()
	if _, refused := errors.AsType[*sink.Refusal](f.Publish(t.Context(), "ticks:1", []byte("1"))); !refused || first+second == 0 {
		t.Errorf("refused: %v, %d and %d requests", refused, first, second)
	}
}
