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

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/origin"
)

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
	return pages.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// RejectClient answers the request of a client that Authenticate, or the connect request, has refused. A browser's EventSource comes again only if the
// reason is temporary. An error that is none of the client protocol is logged.
func (g *Gateway) RejectClient(w http.ResponseWriter, r *http.Request, err error) {
	var e *push.Error
	var d push.Disconnect
	switch why := new(NotAdmitted); {
	case errors.As(err, &why):
		comeAgain(w, r, why)
	case errors.As(err, &d) && d.Reconnect():
		ComeAgain(w, r, http.StatusServiceUnavailable, d.Reason)
	case errors.As(err, &d):
		Refuse(w, r, http.StatusForbidden, d.Reason)
	case errors.As(err, &e) && e.Temporary:
		ComeAgain(w, r, http.StatusServiceUnavailable, e.Message)
	case errors.Is(err, push.ErrUnauthorized), errors.Is(err, push.ErrTokenExpired):
		Refuse(w, r, http.StatusUnauthorized, e.Message)
	case errors.Is(err, push.ErrPermissionDenied):
		Refuse(w, r, http.StatusForbidden, e.Message)
	case errors.As(err, &e):
		Refuse(w, r, http.StatusBadRequest, e.Message)
	default:
		g.options.Logger.Error("client failed to connect", "path", r.URL.Path, "error", err)
		ComeAgain(w, r, http.StatusInternalServerError, push.ErrInternal.Message)
	}
}

// ComeAgain refuses a request for now. A browser's EventSource gives up for ever after any status but 200 (HTML standard, section 9.2), so it is
// given a stream that ends and says when to come again; every other client gets the status.
func ComeAgain(w http.ResponseWriter, r *http.Request, status int, reason string) {
	comeAgain(w, r, notAdmitted(status, reason))
}

func comeAgain(w http.ResponseWriter, r *http.Request, why *NotAdmitted) {
	if !wantsEvents(r) {
		w.Header().Set("Retry-After", RetryAfter(why.Wait))
		if len(why.Routes) > 0 {
			endConnection(w, r)
			route.Write(w, why.Status, why.Reason, why.Routes)
			return
		}
		Refuse(w, r, why.Status, why.Reason)
		return
	}
	EventHeader(w.Header())
	endConnection(w, r)
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
