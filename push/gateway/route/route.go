// Package route has what clients of a cluster are told of gateways, as values and as text: in the answer to a client that asks, in refusals, and in the
// message with which a client is moved. It does not choose gateways and does no I/O of its own.
package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Path is where clients ask to which gateways they should go.
const Path = "/connection/route"

// Client is what is known of a client for which gateways are chosen. A Client does not change once others have it, so it may be shared.
type Client struct {
	// User is the user's ID; empty if the client is anonymous, or has not said yet who it is.
	User string
	// Addr is the address from which the client comes, by what trusted proxies say. It is not valid for a client of a Unix socket.
	Addr netip.Addr
	// Claims are claims of the client's token by name; nil if there are none, or the client has not said yet who it is.
	Claims map[string]string
	// Channel is the one that the client mainly wants; empty if that is not known.
	Channel string
}

// Route is a gateway to which a client may go.
type Route struct {
	// URL is where clients reach the gateway: http, https, ws or wss, host, and perhaps a path.
	URL string `json:"url"`
}

// URLs returns the URLs of routes.
func URLs(routes []Route) []string {
	urls := make([]string, len(routes))
	for i := range routes {
		urls[i] = routes[i].URL
	}
	return urls
}

// Field returns URLs as the value of a header or trailer, separated by spaces. URLs that cannot be in one are left out.
func Field(urls []string) string {
	var out []string
	for _, u := range urls {
		if u != "" && !strings.ContainsFunc(u, func(r rune) bool { return r <= ' ' || r > '~' }) {
			out = append(out, u)
		}
	}
	return strings.Join(out, " ")
}

// Write answers a request with routes, and with the reason if it is refused.
func Write(w http.ResponseWriter, status int, reason string, routes []Route) {
	body, _ := json.Marshal(struct { // cannot fail: texts
		Reason string  `json:"reason,omitempty"`
		Routes []Route `json:"routes"`
	}{reason, routes})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// Move returns the data of the message that tells a client to go to other gateways, and how long to wait before.
func Move(urls []string, wait time.Duration) []byte {
	type move struct {
		Routes []string `json:"routes"`
		Wait   int64    `json:"retry_after"` // in milliseconds
	}
	type member struct {
		Move move `json:"move"`
	}
	data, _ := json.Marshal(map[string]member{"sluice": {move{urls, max(wait, 0).Milliseconds()}}}) // cannot fail: texts and a number
	return data
}

// Query is what a client says of itself that asks for routes.
type Query struct {
	Token   string // empty: none
	Channel string // that the client mainly wants; empty: none
}

// ParseQuery reads a request for routes. The token is in the header Authorization, as Bearer TOKEN, or in the query. A header of another scheme is
// that of a proxy in front of the node. The error, for the client, says that the token has more than so many bytes, the channel has no valid name, or
// the query is not valid.
func ParseQuery(r *http.Request, mostToken int) (q Query, err error) {
	in, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("the query is not valid: %w", err)
	}
	for name, to := range map[string]*string{"token": &q.Token, "channel": &q.Channel} {
		values := in[name]
		if len(values) > 1 {
			return q, fmt.Errorf("the query has %s %d times, once is allowed", name, len(values))
		}
		*to = in.Get(name)
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		q.Token = strings.TrimSpace(token)
	}
	if len(q.Token) > mostToken {
		return q, fmt.Errorf("the token has %d bytes, at most %d are allowed", len(q.Token), mostToken)
	}
	if q.Channel == "" {
		return q, nil
	}
	return q, push.CheckChannel(q.Channel)
}
