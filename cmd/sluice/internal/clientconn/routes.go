package clientconn

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-push/sluice/push/gateway/route"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/protocol"
)

// maxRouteAnswer is the longest answer that is read, in bytes.
const maxRouteAnswer = 64 << 10

// Routes are the gateways of a cluster that a client tries one after the other, and at last the address that the user gave. They belong to one goroutine.
type Routes struct {
	home  string
	token string
	urls  []string // still to be tried, the best first
	http  *http.Client
}

// NewRoutes returns routes with nothing but the address that the user gave. The token is that of the client.
func NewRoutes(home, token string) *Routes {
	return &Routes{home: home, token: token, http: http.DefaultClient}
}

// Route returns the public address of the gateway to which the node at a URL sends a client. The URL may be that of the node's WebSocket clients. A node in
// no cluster sends clients to itself.
func Route(ctx context.Context, client *http.Client, node, token, channel string) (*url.URL, error) {
	u, err := url.Parse(node)
	if err != nil {
		return nil, err
	}
	if scheme := map[string]string{"ws": "http", "wss": "https"}[u.Scheme]; scheme != "" {
		u.Scheme, u.Path = scheme, strings.TrimSuffix(u.Path, wsclients.Path)
	}
	r := NewRoutes(u.String(), token)
	r.http = client
	if err := r.Ask(ctx, channel); err != nil {
		return nil, err
	}
	return url.Parse(r.Next())
}

// IsEmpty reports whether nothing but the user's address is left to be tried.
func (r *Routes) IsEmpty() bool { return len(r.urls) == 0 }

// Next returns the address to try next, and takes it out of the list. Without any left, it is the user's address.
func (r *Routes) Next() string {
	if len(r.urls) == 0 {
		return r.home
	}
	first := r.urls[0]
	r.urls = r.urls[1:]
	return first
}

// Set replaces the list by what a node has told. URLs for WebSocket stand for those of HTTP; what is no address of a node is left out.
func (r *Routes) Set(urls []string) {
	r.urls = nil
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			continue
		}
		switch u.Scheme {
		case "ws":
			u.Scheme = "http"
		case "wss":
			u.Scheme = "https"
		case "http", "https":
		default:
			continue
		}
		if address := u.String(); !slices.Contains(r.urls, address) {
			r.urls = append(r.urls, address)
		}
	}
}

// Ask asks the user's address for the list. A node in no cluster has none, and neither has an address that does not speak HTTP: then the list stays as it
// is. The error is a *[Refused] if the node refuses the client.
func (r *Routes) Ask(ctx context.Context, channel string) error {
	base, err := url.Parse(r.home)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" {
		return nil //nolint:nilerr // an address that is not valid is told by Dial
	}
	u := base.JoinPath(route.Path)
	if channel != "" {
		u.RawQuery = url.Values{"channel": {channel}}.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", base, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRouteAnswer))
	if err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusNotFound:
		return nil
	case http.StatusOK:
	default:
		return &Refused{Status: response.StatusCode, Reason: strings.TrimSpace(string(text[:min(len(text), 1024)]))}
	}
	var answer struct {
		Routes []route.Route
	}
	if err := stdjson.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s answers something else than routes: %w; check the URL", base, err)
	}
	r.Set(route.URLs(answer.Routes))
	return nil
}

// Told takes the routes that a reply has, and reports whether the client is to go there at once: a message of a gateway that moves it. The answer to
// the connect command only says where to go when the connection ends.
func (r *Routes) Told(reply *protocol.Reply) (move bool) {
	var data []byte
	switch {
	case reply.Kind == protocol.KindConnect && reply.Error == nil:
		data = reply.Connect.Data
	case reply.Kind == protocol.KindPush && reply.Push.Kind == protocol.PushMessage:
		data = reply.Push.Message
	}
	if len(data) == 0 {
		return false
	}
	var told struct {
		Sluice struct {
			Routes []string
			Move   *struct{ Routes []string }
		}
	}
	if stdjson.Unmarshal(data, &told) != nil {
		return false // it is for the user's programs
	}
	if told.Sluice.Move != nil {
		r.Set(told.Sluice.Move.Routes)
		return true
	}
	if len(told.Sluice.Routes) > 0 {
		r.Set(told.Sluice.Routes)
	}
	return false
}
