package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push/origin"
)

// preflightAge is for how many seconds a browser keeps the answer to a preflight.
const preflightAge = "600"

// forPages answers preflights and adds what a browser needs to show a page the answer, refusals too, where the page may use the node (Fetch
// standard, CORS protocol).
func forPages(pages *origin.Rules, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := r.Header.Get("Origin")
		if from == "" || !pages.Allow(r) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", from)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Add("Vary", "Origin")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		if fields := r.Header.Get("Access-Control-Request-Headers"); fields != "" {
			h.Set("Access-Control-Allow-Headers", fields) // what they say is not trusted
			h.Add("Vary", "Access-Control-Request-Headers")
		}
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
	})
}

// refuseOrigin counts a page that may not connect, and says so at a level that operators see: a page that is missing from the settings is a
// common mistake.
func (g *Gateway) refuseOrigin(from []string, host, remote string) {
	g.counts.origin.Add(1)
	if g.originWarnings.Due(time.Now()) {
		g.options.Logger.Info("a page of another origin was refused", "origin", from, "host", host, "remote", remote)
	}
}

// Waiting returns what serves the paths of clients, with given Options.Origins, until there is a gateway: all are told to come again.
func Waiting(origins []string, reason string) http.Handler {
	pages := origin.New(origins)
	return forPages(pages, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == SSEPath && !pages.Allow(r) {
			refuse(w, r, http.StatusForbidden, notThisOrigin)
			return
		}
		comeAgain(w, r, http.StatusServiceUnavailable, reason)
	}))
}

const notThisOrigin = "pages of this origin may not connect"

// The time after which a stream's client comes again, spread so that not all do at once.
const (
	retryLeast  = time.Second
	retrySpread = 3 * time.Second
)

// appendRetry appends the field that tells a client of events when to connect again after an end.
func appendRetry(dst []byte) []byte {
	return fmt.Appendf(dst, "retry: %d\n", (retryLeast + rand.N(retrySpread)).Milliseconds())
}

// comeAgain refuses a request for now. A browser's EventSource gives up for ever after any status but 200 (HTML standard, section 9.2), so it is
// given a stream that ends and says when to come again; everybody else gets the status.
func comeAgain(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.URL.Path != SSEPath || !strings.Contains(r.Header.Get("Accept"), eventStream) {
		w.Header().Set("Retry-After", "1")
		refuse(w, r, status, reason)
		return
	}
	streamHeader(w.Header())
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n\n", appendRetry(nil), strings.NewReplacer("\n", " ", "\r", " ").Replace(reason)) // it may be gone
}

const eventStream = "text/event-stream"

// streamHeader sets the header of a stream of events.
func streamHeader(h http.Header) {
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
}

// speaksProtobuf reports whether a client of WebSocket asks for the Protobuf form of the protocol, by any of the ways of the official SDKs.
func speaksProtobuf(r *http.Request) bool {
	q := r.URL.Query()
	if q.Get("format") == "protobuf" || q.Get("cf_protocol") == "protobuf" {
		return true
	}
	offered := strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ",")
	return strings.Contains(offered, "centrifuge-protobuf") && !strings.Contains(offered, jsonSubprotocol)
}

// jsonSubprotocol is the subprotocol of the JSON form.
const jsonSubprotocol = "centrifuge-json"
