package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/forwarded"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/route"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
)

// directory is a gateway.Routes that notes for which clients it was asked.
type directory struct {
	urls    []string
	refuses func(c *route.Client) bool // nil: all clients are allowed

	mu    sync.Mutex
	asked []route.Client
}

func newDirectory(urls ...string) *directory { return &directory{urls: urls} }

func (d *directory) Route(c *route.Client, _ bool) []route.Route {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, *c)
	var out []route.Route
	for _, u := range d.urls {
		out = append(out, route.Route{URL: u})
	}
	return out
}

func (d *directory) Allows(c *route.Client) bool { return d.refuses == nil || !d.refuses(c) }

// take returns for which clients it was asked since the last call.
func (d *directory) take() []route.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

// named identifies a client by its token: its user, and perhaps its tier. Some tokens are refused.
func named(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
	user, tier, has := strings.Cut(token, "@")
	id := gateway.Identity{Info: push.ClientInfo{User: user}}
	if has {
		id.Claims = map[string]string{"tier": tier}
	}
	return id, map[string]error{
		"unauthorized": push.ErrUnauthorized, "expired": push.ErrTokenExpired, "busy": push.ErrTooManyRequests, "denied": push.ErrPermissionDenied,
		"broken": errors.New("broken"), "wrong": push.Disconnect{Code: push.DisconnectInvalidToken.Code, Reason: "invalid token: it is of another"},
		"limit": push.DisconnectConnectionLimit, "later": push.DisconnectServerError, "odd": push.ErrBadRequest,
	}[token]
}

const (
	routesText = `{"routes":[{"url":"wss://a.example.org"},{"url":"wss://b.example.org/x"}]}` + "\n"
	ofA, ofB   = "wss://a.example.org", "wss://b.example.org/x"
)

// A client asks for its routes with a token, or without one, and with a channel.
func TestRouteQuery(t *testing.T) {
	d := newDirectory(ofA, ofB)
	trusted, err := forwarded.Parse([]string{"192.0.2.0/24"})
	must(t, err)
	p := newPlace(t, &gateway.Options{Routes: d, Authenticate: named, Proxies: trusted})
	from := func(client route.Client) route.Client {
		if !client.Addr.IsValid() {
			client.Addr = netip.MustParseAddr("192.0.2.1")
		}
		return client
	}
	long := strings.Repeat("c", push.MaxChannelLen)
	for _, tt := range []struct {
		query  string
		header http.Header
		want   route.Client
	}{
		{"", nil, route.Client{}},
		{"?token=ann", nil, route.Client{User: "ann"}},
		{"?token=ann%40vip&channel=quotes%3Aall", nil, route.Client{User: "ann", Claims: map[string]string{"tier": "vip"}, Channel: "quotes:all"}},
		{"?channel=" + long, nil, route.Client{Channel: long}},
		{"?token=&channel=&other=1&other=2", nil, route.Client{}},
		{"", http.Header{"Authorization": {"Bearer ann"}}, route.Client{User: "ann"}},
		{"?token=bob", http.Header{"Authorization": {"bearer  ann"}}, route.Client{User: "ann"}},
		{"?token=bob", http.Header{"Authorization": {"Basic YW5uOg=="}}, route.Client{User: "bob"}},
		{"", http.Header{"Authorization": {"Basic YW5uOg=="}}, route.Client{}},
		{"", http.Header{"Authorization": {""}}, route.Client{}},
		{"", http.Header{"X-Forwarded-For": {"2001:db8::1:2"}}, route.Client{Addr: netip.MustParseAddr("2001:db8::1:2")}},
		{"", http.Header{"Accept": {"text/html"}, "Last-Event-Id": {"1"}}, route.Client{}},
	} {
		w := p.call(http.MethodGet, route.Path+tt.query, tt.header)
		if w.Code != http.StatusOK || w.Body.String() != routesText || w.Header().Get("Content-Type") != "application/json" ||
			w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%.80s: status %d, header %v: %s", tt.query, w.Code, w.Header(), w.Body)
		}
		if got := d.take(); len(got) != 1 || !reflect.DeepEqual(got[0], from(tt.want)) {
			t.Errorf("%.80s: asked for %+v, want %+v", tt.query, got, from(tt.want))
		}
	}
}

// A request for routes that is refused says why, and names no gateways.
func TestRouteQueryRefused(t *testing.T) {
	d := newDirectory(ofA)
	p := newPlace(t, &gateway.Options{Routes: d, Authenticate: named, Origins: []string{"https://page.example"}, MessageBytes: 2000})
	p.log.expect("client failed to connect")
	p.log.expect("origin not allowed")
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	huge := strings.Repeat("x", 2001)
	for _, tt := range []struct {
		query  string
		header http.Header
		status int
		text   string
	}{
		{"?token=unauthorized", nil, http.StatusUnauthorized, "unauthorized"},
		{"", bearer("expired"), http.StatusUnauthorized, "token expired"},
		{"?token=wrong", nil, http.StatusUnauthorized, "invalid token: it is of another"},
		{"?token=denied", nil, http.StatusForbidden, "permission denied"},
		{"?token=limit", nil, http.StatusForbidden, "connection limit"},
		{"?token=odd", nil, http.StatusBadRequest, "bad request"},
		{"?token=busy", nil, http.StatusServiceUnavailable, "too many requests"},
		{"?token=later", nil, http.StatusServiceUnavailable, "internal server error"},
		{"?token=broken", nil, http.StatusInternalServerError, "internal server error"},
		{"?token=" + huge, nil, http.StatusBadRequest, "the token has 2001 bytes, at most 2000 are allowed"},
		{"", bearer(huge), http.StatusBadRequest, "the token has 2001 bytes"},
		{"?token=a&token=b", nil, http.StatusBadRequest, "token 2 times"},
		{"?channel=a&channel=a", nil, http.StatusBadRequest, "channel 2 times"},
		{"?token=%zz", nil, http.StatusBadRequest, "not valid"},
		{"?token=a;channel=b", nil, http.StatusBadRequest, "not valid"},
		{"?channel=" + strings.Repeat("c", push.MaxChannelLen+1), nil, http.StatusBadRequest, "channel name"},
		{"?channel=" + url.QueryEscape("a\nb"), nil, http.StatusBadRequest, "control"},
		{"?channel=%FF", nil, http.StatusBadRequest, "UTF-8"},
		{"?channel=%3Aa", nil, http.StatusBadRequest, "colon"},
		{"?" + strings.Repeat("a=1&", 20_000) + "channel=%3Aa", nil, http.StatusBadRequest, "not valid"},
		{"", http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden, "origin not allowed"},
	} {
		w := p.call(http.MethodGet, route.Path+tt.query, tt.header)
		again := tt.status >= 500
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || (w.Header().Get("Retry-After") == "1") != again ||
			w.Header().Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), ofA) {
			t.Errorf("%.40s: status %d, header %v: %s", tt.query, w.Code, w.Header(), w.Body)
		}
	}
	if asked := d.take(); len(asked) > 0 {
		t.Errorf("asked for %+v", asked)
	}
	if w := p.call(http.MethodGet, route.Path+"?token=wrong", nil); w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("header %v", w.Header())
	}
	got := p.gateway.Stats().Refused
	if got.Request != 11 || got.Client != 10 || got.Origin != 1 {
		t.Errorf("counted: %+v", got)
	}
}

// A page of another origin may ask for routes as it may connect, with a token in the header.
func TestRouteQueryOfPage(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA, ofB), Origins: []string{"https://page.example"}})
	page := http.Header{"Origin": {"https://page.example"}}
	if w := p.call(http.MethodGet, route.Path, page); w.Code != http.StatusOK || w.Header().Get("Access-Control-Allow-Origin") != page.Get("Origin") {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	page.Set("Access-Control-Request-Method", "GET")
	page.Set("Access-Control-Request-Headers", "authorization")
	w := p.call(http.MethodOptions, route.Path, page)
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("the preflight: status %d, header %v", w.Code, w.Header())
	}
}

// Without a cluster there is no such path; in a cluster it takes GET only, and without a gateway the client comes again.
func TestRouteQueryWithout(t *testing.T) {
	for name, tt := range map[string]struct {
		routes gateway.Routes
		method string
		status int
	}{
		"no cluster":     {nil, http.MethodGet, http.StatusNotFound},
		"no gateways":    {newDirectory(), http.MethodGet, http.StatusServiceUnavailable},
		"another method": {newDirectory(ofA), http.MethodPost, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &gateway.Options{Routes: tt.routes})
			w := p.call(tt.method, route.Path, nil)
			if w.Code != tt.status || (w.Header().Get("Retry-After") == "1") != (tt.status == http.StatusServiceUnavailable) {
				t.Errorf("status %d, header %v: %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// Requests for routes count as connects: beyond a rate no token is checked, and clients that connect are refused.
func TestRouteQueryRate(t *testing.T) {
	for name, tt := range map[string]struct {
		options gateway.Options
		status  int
		body    string
	}{
		"of the address": {gateway.Options{ConnectsPerAddress: 3}, http.StatusTooManyRequests, "too many connects from address 192.0.2.1, try again later\n"},
		"of all":         {gateway.Options{Connects: 3}, http.StatusServiceUnavailable, `{"reason":"too many clients connect, try again later","routes":[{"url":"wss://a.example.org"}]}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			checked := 0
			tt.options.Routes = newDirectory(ofA)
			tt.options.Authenticate = func(context.Context, string, *http.Request) (gateway.Identity, error) {
				checked++
				return gateway.Identity{}, push.ErrUnauthorized
			}
			inFakeTime(t, &tt.options, func(t *testing.T, p *place) {
				p.log.expect(`msg="limit exceeded"`)
				for range 3 {
					if w := p.call(http.MethodGet, route.Path+"?token=guess", nil); w.Code != http.StatusUnauthorized {
						t.Errorf("status %d: %s", w.Code, w.Body)
					}
				}
				for range 100 {
					w := p.call(http.MethodGet, route.Path+"?token=guess", nil)
					if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("Retry-After") == "" {
						t.Fatalf("status %d, header %v: %s", w.Code, w.Header(), w.Body)
					}
				}
				if w := p.call(http.MethodGet, sseclients.OneWayPath, nil); w.Code != tt.status {
					t.Errorf("a client that connects: status %d: %s", w.Code, w.Body)
				}
				if got := p.gateway.Stats().Refused.Ramp; checked != 3 || got != 101 {
					t.Errorf("%d tokens were checked, and %d requests are counted", checked, got)
				}
			})
		})
	}
}

// Only so many requests for routes wait for Authenticate at a time. Shutdown ends them, and waits for them.
func TestRouteQueriesAtOnce(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{}, gateway.MostQueries)
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA), Authenticate: func(ctx context.Context, token string, _ *http.Request) (gateway.Identity, error) {
		began <- struct{}{}
		if token == "deaf" {
			<-release
			return gateway.Identity{}, nil
		}
		<-ctx.Done()
		return gateway.Identity{}, push.ErrInternal
	}})
	var asking sync.WaitGroup
	codes := make(chan int, gateway.MostQueries)
	for i := range gateway.MostQueries {
		token := "t"
		if i == 0 {
			token = "deaf"
		}
		asking.Go(func() { codes <- p.call(http.MethodGet, route.Path+"?token="+token, nil).Code })
	}
	for range gateway.MostQueries {
		testwait.Receive(t, began)
	}
	w := p.call(http.MethodGet, route.Path, nil)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "too many clients ask for gateways") || !strings.Contains(w.Body.String(), ofA) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		p.shutdown()
	}()
	for range gateway.MostQueries - 1 {
		if code := testwait.Receive(t, codes); code != http.StatusServiceUnavailable {
			t.Errorf("status %d", code)
		}
	}
	select {
	case <-shut:
		t.Error("Shutdown has not waited for a request")
	default:
	}
	close(release)
	testwait.Receive(t, shut)
	testwait.Return(t, asking.Wait)
	if w := p.call(http.MethodGet, route.Path, nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
		t.Errorf("after Shutdown: status %d: %s", w.Code, w.Body)
	}
}

// A node that is drained still tells clients their routes.
func TestRouteQueryWhileDraining(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA, ofB)})
	must(t, p.gateway.Drain(t.Context(), 0))
	if w := p.call(http.MethodGet, route.Path, nil); w.Code != http.StatusOK || w.Body.String() != routesText {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// The same over the network, for which the handler is found by its path.
func TestRouteQueryOverHTTP(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA, ofB), Authenticate: named})
	res, body := p.get(http.MethodGet, route.Path, http.Header{"Authorization": {"Bearer ann"}})
	if res.StatusCode != http.StatusOK || body != routesText {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	if res, body := p.get(http.MethodHead, route.Path, nil); res.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: status %d: %s", res.StatusCode, body)
	}
	if res, _ := p.get(http.MethodGet, fmt.Sprintf("%s?token=%s", route.Path, strings.Repeat("x", 2<<20)), nil); res.StatusCode < 400 {
		t.Errorf("a token of two megabytes: status %d", res.StatusCode)
	}
}
