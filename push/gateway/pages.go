package gateway

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
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
		h.Set("Access-Control-Expose-Headers", "Retry-After")
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

// Allows reports whether the page of a request, if it is of one, may connect.
func (g *Gateway) Allows(r *http.Request) bool { return g.pages.Allow(r) }

// AllowsOrigin reports whether a page of an origin may connect to a host. No origin is not a page, which may.
func (g *Gateway) AllowsOrigin(from, host string) bool { return g.pages.AllowOrigin(from, host) }

// OriginRefused counts a page that may not connect, and logs it at a level that operators see: a page that is missing from the settings is a
// common mistake.
func (g *Gateway) OriginRefused(r *http.Request) {
	g.counts.origin.Add(1)
	if g.originWarnings.Due(time.Now()) {
		g.options.Logger.Info("origin not allowed", "origin", r.Header["Origin"], "host", r.Host, "remote", r.RemoteAddr)
	}
}

// RequestRefused counts a request that cannot be understood, or whose connection broke, and a connection without a valid PROXY header.
func (g *Gateway) RequestRefused() { g.counts.request.Add(1) }

// ClientRefused counts a client, or one of its subscriptions, that was refused before it was connected.
func (g *Gateway) ClientRefused() { g.counts.client.Add(1) }

// Waiting returns what serves the paths of clients, with given Options.Origins, until there is a gateway: all are told to come again.
func Waiting(origins []string, reason string) http.Handler {
	pages := origin.New(origins)
	return forPages(pages, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wantsEvents(r) && !pages.Allow(r) {
			Refuse(w, r, http.StatusForbidden, NotThisOrigin)
			return
		}
		ComeAgain(w, r, http.StatusServiceUnavailable, reason)
	}))
}

// NotThisOrigin is the answer to a page that may not connect.
const NotThisOrigin = "origin not allowed"

// MinRetry is the shortest time after which a client that is refused for now comes again.
const MinRetry = time.Second

// retrySpread is added at random to the time after which a stream's client comes again, so that not all come at once.
const retrySpread = 3 * time.Second

// AppendRetry appends the field that tells a client of events when to connect again after an end.
func AppendRetry(dst []byte) []byte { return appendRetry(dst, MinRetry) }

func appendRetry(dst []byte, least time.Duration) []byte {
	return fmt.Appendf(dst, "retry: %d\n", (least + rand.N(retrySpread)).Milliseconds())
}

// RefuseArrival answers the request of a client that [Client.Arrive] has not admitted, as ComeAgain does, with the time after which the client should
// come again.
func RefuseArrival(w http.ResponseWriter, r *http.Request, err error) {
	why := notAdmitted(http.StatusServiceUnavailable, err.Error())
	errors.As(err, &why)
	comeAgain(w, r, why)
}

// RetryAfter returns the value of the header Retry-After for a time: whole seconds, rounded up (RFC 9110, section 10.2.3).
func RetryAfter(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }

// ComeAgain refuses a request for now. A browser's EventSource gives up for ever after any status but 200 (HTML standard, section 9.2), so it is
// given a stream that ends and says when to come again; every other client gets the status.
func ComeAgain(w http.ResponseWriter, r *http.Request, status int, reason string) {
	comeAgain(w, r, notAdmitted(status, reason))
}

func comeAgain(w http.ResponseWriter, r *http.Request, why *NotAdmitted) {
	if !wantsEvents(r) {
		w.Header().Set("Retry-After", RetryAfter(why.Wait))
		Refuse(w, r, why.Status, why.Reason)
		return
	}
	EventHeader(w.Header())
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	text := strings.NewReplacer("\n", " ", "\r", " ").Replace(why.Reason)
	_, _ = fmt.Fprintf(w, "%s: %s\n\n", appendRetry(nil, why.Wait), text) // it may be gone
}

const eventStream = "text/event-stream"

// wantsEvents reports whether a request is that of an EventSource.
func wantsEvents(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), eventStream)
}

// EventHeader sets the header of a stream of events.
func EventHeader(h http.Header) {
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
}
