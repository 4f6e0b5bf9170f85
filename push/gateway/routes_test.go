package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/httpstream"
	"github.com/sluice-push/sluice/push/gateway/route"
	sseclients "github.com/sluice-push/sluice/push/gateway/sse"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
)

// A node that refuses a client for now tells it other gateways, by its address, unless the client exceeds a rate of its own.
func TestRefusalsHaveRoutes(t *testing.T) {
	for name, tt := range map[string]struct {
		options gateway.Options
		refuse  func(p *place)
		reason  string // empty: no gateways are told
	}{
		"draining":  {gateway.Options{}, func(p *place) { must(p.t, p.gateway.Drain(p.t.Context(), 0)) }, "the node is shutting down"},
		"shut down": {gateway.Options{}, func(p *place) { must(p.t, p.shutdownWithin(patience)) }, "the node is shutting down"},
		"full":      {gateway.Options{Sessions: 1}, (*place).occupy, "the node has reached its limit of clients"},
		"full for the address": {
			gateway.Options{SessionsPerAddress: 1}, (*place).occupy, "address 192.0.2.1 has reached its limit of connections",
		},
		"over the rate":                {gateway.Options{Connects: 1}, (*place).occupy, "too many clients connect, try again later"},
		"over the rate of the address": {gateway.Options{ConnectsPerAddress: 1}, (*place).occupy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(ofA, ofB)
			tt.options.Routes = d
			inFakeTime(t, &tt.options, func(t *testing.T, p *place) {
				if p.gateway.Options().Sessions+p.gateway.Options().SessionsPerAddress+p.gateway.Options().Connects+p.gateway.Options().ConnectsPerAddress > 0 {
					p.log.expect(`msg="limit exceeded"`)
				}
				tt.refuse(p)
				for path, method := range map[string]string{
					wsclients.Path: http.MethodGet, wsclients.OneWayPath: http.MethodGet,
					sseclients.Path + "?cf_connect={}": http.MethodGet, sseclients.OneWayPath: http.MethodGet,
					httpstream.Path: http.MethodPost, httpstream.OneWayPath: http.MethodPost,
				} {
					w := p.call(method, path, nil)
					want := fmt.Sprintf(`{"reason":"%s","routes":[{"url":"wss://a.example.org"},{"url":"wss://b.example.org/x"}]}`+"\n", tt.reason)
					if tt.reason == "" {
						want = "too many connects from address 192.0.2.1, try again later\n"
					}
					if w.Body.String() != want || w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close" ||
						(w.Header().Get("Content-Type") == "application/json") != (tt.reason != "") {
						t.Errorf("%s: status %d, header %v: %s", path, w.Code, w.Header(), w.Body)
					}
					for _, asked := range d.take() {
						if !reflect.DeepEqual(asked, route.Client{Addr: netip.MustParseAddr("192.0.2.1")}) {
							t.Errorf("%s: asked for %+v", path, asked)
						}
					}
				}
				w := p.call(http.MethodGet, sseclients.OneWayPath, http.Header{"Accept": {"text/event-stream"}}) // a browser's EventSource looks at no body
				if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "retry: ") || strings.Contains(w.Body.String(), ofA) {
					t.Errorf("an EventSource: status %d, %s", w.Code, w.Body)
				}
			})
		})
	}
}

// A WebSocket client reads the gateways in the answer to its handshake.
func TestRefusedUpgrade(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA, ofB)})
	must(t, p.gateway.Drain(t.Context(), 0))
	_, res, err := p.dialWS(nil)
	if err == nil || res == nil {
		t.Fatalf("%v, %v", res, err)
	}
	var in struct {
		Reason string
		Routes []route.Route
	}
	must(t, json.NewDecoder(res.Body).Decode(&in))
	if res.StatusCode != http.StatusServiceUnavailable || in.Reason == "" || !slices.Equal(route.URLs(in.Routes), []string{ofA, ofB}) {
		t.Errorf("status %d: %+v", res.StatusCode, in)
	}
}

// vipOnly is a directory whose node is for clients of a tier only.
func vipOnly() *directory {
	d := newDirectory(ofA, ofB)
	d.refuses = func(c *route.Client) bool { return c.Claims["tier"] != "vip" }
	return d
}

// A client that does not belong on the node is told to connect again, and does not get a session; a one-way client over HTTP is told where to.
func TestWrongGateway(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: vipOnly(), Authenticate: named, SessionsPerUser: 1})
	for range 2 { // no refused client counts for its user
		c := p.connectWS(nil)
		c.send(`{"id":1,"connect":{"token":"ann"}}`)
		c.wantClose(3101, "wrong gateway")
	}
	const request = `{"token":"ann@basic","subs":{"b":{},"a":{}}}`
	for path, header := range map[string]http.Header{
		sseclients.OneWayPath + "?cf_connect=" + request: nil, sseclients.OneWayPath + `?cf_connect={"token":"ann"}`: nil,
	} {
		w := p.call(http.MethodGet, path, header)
		want := `{"reason":"wrong gateway","routes":[{"url":"wss://a.example.org"},{"url":"wss://b.example.org/x"}]}` + "\n"
		if w.Code != http.StatusServiceUnavailable || w.Body.String() != want || w.Header().Get("Retry-After") != "1" {
			t.Errorf("status %d, header %v: %s", w.Code, w.Header(), w.Body)
		}
	}
	w := p.call(http.MethodGet, sseclients.OneWayPath, http.Header{"Accept": {"text/event-stream"}})
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "retry: ") || !strings.Contains(w.Body.String(), ": wrong gateway\n") {
		t.Errorf("an EventSource: status %d, %s", w.Code, w.Body)
	}
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{"token":"ann@vip"}}`)
	c.wantParts(`"data":{"sluice":{"routes":["wss://a.example.org","wss://b.example.org/x"]}}`)
	for one := range p.gateway.Sessions() {
		if one.Client.Claims["tier"] != "vip" {
			t.Errorf("listed: %+v", one.Client)
		}
	}
	if n := p.gateway.Users(); n != 1 {
		t.Errorf("%d users have sessions", n)
	}
	if got := p.gateway.Stats(); got.Transports[wsclients.Name].Disconnected[3101] != 2 || got.Refused.Client != 3 {
		t.Errorf("counted: %+v, %+v", got.Transports, got.Refused)
	}
}

// Outside of a cluster, or without gateways, answers are as they were.
func TestConnectWithoutRoutes(t *testing.T) {
	for name, routes := range map[string]gateway.Routes{"no cluster": nil, "no gateways": newDirectory()} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &gateway.Options{Routes: routes})
			c := p.connectWS(nil)
			c.send(`{"id":1,"connect":{"data":{"sluice":{}}}}`)
			if got := c.receive(); strings.Contains(got, "routes") || strings.Contains(got, `"data"`) {
				t.Error(got)
			}
			if first := p.stream(`{}`, "").next().data; strings.Contains(first, "routes") {
				t.Error(first)
			}
		})
	}
}

// The channel that a client mainly wants is the one it names when it connects, or else the first one that it subscribes to.
func TestMainChannel(t *testing.T) {
	d := newDirectory(ofA)
	p := newPlace(t, &gateway.Options{Routes: d, Authenticate: func(ctx context.Context, token string, r *http.Request) (gateway.Identity, error) {
		id, err := named(ctx, token, r)
		id.Subscriptions = []gateway.ServerSubscription{{Channel: "#" + id.Info.User}}
		return id, err
	}})
	channelOf := func(user string) (channel string) {
		t.Helper()
		testwait.True(t, user+" is listed", func() bool {
			for one := range p.gateway.Sessions() {
				if one.Client.User == user {
					channel = one.Client.Channel
					return true
				}
			}
			return false
		})
		return channel
	}
	connect := func(user, data string) *wsClient {
		t.Helper()
		c := p.connectWS(nil)
		c.send(fmt.Sprintf(`{"id":1,"connect":{"token":"%s","data":%s}}`, user, data))
		c.wantParts(`{"id":1,"connect":{`)
		return c
	}
	named := connect("named", `{"sluice":{"channel":"quotes:a"}}`)
	named.send(`{"id":2,"subscribe":{"channel":"b"}}`)
	named.wantParts(`{"id":2,"subscribe":{`)
	if got := channelOf("named"); got != "quotes:a" {
		t.Errorf("it is %q", got)
	}
	other := connect("other", `{"channel":"x"}`)
	if got := channelOf("other"); got != "" {
		t.Errorf("it is %q", got)
	}
	for i, name := range []string{"nowhere:a", "b", "a"} {
		other.send(fmt.Sprintf(`{"id":%d,"subscribe":{"channel":"%s"}}`, i+2, name))
		other.wantParts(fmt.Sprintf(`{"id":%d,`, i+2))
	}
	if got := channelOf("other"); got != "b" {
		t.Errorf("it is %q", got)
	}
	p.stream(`{"token":"oneway","subs":{"b":{},"a":{}}}`, "").next()
	if got := channelOf("oneway"); got != "a" {
		t.Errorf("it is %q", got)
	}
	d.take()
	for _, bad := range []string{strings.Repeat("x", 256), `a\u0000`, ":a"} {
		c := p.connectWS(nil)
		c.send(`{"id":1,"connect":{"data":{"sluice":{"channel":"` + bad + `"}}}}`)
		c.wantParts(`{"id":1,"error":{"code":107,"message":"connect.data.sluice.channel: channel name`)
	}
	if asked := d.take(); len(asked) > 0 {
		t.Errorf("asked for %+v", asked)
	}
}

// Sessions are the clients that are connected, since when, and by what they are routed, with the claims of their newest token.
func TestSessions(t *testing.T) {
	inFakeTime(t, &gateway.Options{Routes: newDirectory(ofA), Authenticate: named, PingInterval: -1, ConnectTimeout: time.Hour}, func(t *testing.T, p *place) {
		list := func() (all []gateway.Session) {
			synctest.Wait()
			return slices.Collect(p.gateway.Sessions())
		}
		<-time.After(time.Minute)
		c := p.connectWS(nil).forever()
		if got := list(); len(got) != 0 {
			t.Errorf("before it has connected: %+v", got)
		}
		<-time.After(time.Minute)
		c.send(`{"id":1,"connect":{"token":"ann@basic"}}`)
		c.wantParts(`"connect":{`)
		at := time.Now()
		<-time.After(time.Hour)
		first := list()
		if len(first) != 1 || first[0].Client.User != "ann" || first[0].Client.Claims["tier"] != "basic" || first[0].Since.Sub(at).Abs() > time.Second {
			t.Fatalf("%+v", first)
		}
		if again := list(); again[0].Client != first[0].Client {
			t.Error("what is known of a client is copied")
		}
		c.send(`{"id":2,"refresh":{"token":"ann@vip"}}`)
		c.wantParts(`"refresh":{`)
		if got := list(); len(got) != 1 || got[0].Client.Claims["tier"] != "vip" || !got[0].Since.Equal(first[0].Since) || first[0].Client.Claims["tier"] != "basic" {
			t.Errorf("after a refresh: %+v", got)
		}
		if !first[0].Move([]string{ofB}, time.Second) {
			t.Error("a session that was listed before a refresh is not moved")
		}
		c.want(`{"push":{"message":{"data":{"sluice":{"move":{"routes":["wss://b.example.org/x"],"retry_after":1000}}}}}}`)
		if got := list(); len(got) != 0 {
			t.Errorf("after it was moved: %+v", got)
		}
		c.wantClose(3100, "move")
		for range p.gateway.Sessions() {
			t.Error("a client that is gone is listed")
		}
	})
}

// A client that does not read is moved all the same: what waits comes first.
func TestMoveSlowClient(t *testing.T) {
	p := newPlace(t, &gateway.Options{Routes: newDirectory(ofA), Authenticate: named, CommandsPerSession: -1})
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	c.wantParts(`"connect":{`)
	p.put("a", push.Publication{Data: []byte(`"` + strings.Repeat("x", 60_000) + `"`)})
	const asked = 200
	for i := range asked {
		c.send(fmt.Sprintf(`{"id":%d,"history":{"channel":"a","limit":1}}`, i+2))
	}
	testwait.True(t, "replies wait", func() bool { return p.gateway.Held() > 0 })
	for one := range p.gateway.Sessions() {
		if !one.Move([]string{ofB}, 0) {
			t.Error("it is not moved")
		}
	}
	for {
		line, err := c.line()
		if err != nil {
			t.Fatalf("instead of the message: %v", err)
		}
		if strings.Contains(line, `"move":{"routes":["wss://b.example.org/x"],"retry_after":0}`) {
			break
		}
	}
	_, err := c.line()
	if closed := new(websocket.CloseError); !errors.As(err, &closed) || closed.Code != 3100 {
		t.Errorf("ended with %v", err)
	}
	_ = c.conn.Close()
}

// A drain tells each client that is connected the gateways that are its own, and asks the others to connect again. Without gateways it is as outside of
// a cluster.
func TestDrainTellsRoutes(t *testing.T) {
	for name, urls := range map[string][]string{"gateways": {ofB}, "no gateways": nil} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(urls...)
			p := newPlace(t, &gateway.Options{Routes: d, Authenticate: named})
			silent := p.connectWS(nil)
			c := p.connectWS(nil)
			c.send(`{"id":1,"connect":{"token":"ann@vip"}}`)
			c.wantParts(`"connect":{`)
			testwait.True(t, "the client is listed", func() bool { return len(slices.Collect(p.gateway.Sessions())) == 1 })
			testwait.True(t, "both are connected", func() bool { return p.gateway.Len() == 2 })
			d.take()
			must(t, p.gateway.Drain(t.Context(), 0))
			if urls != nil {
				c.want(`{"push":{"message":{"data":{"sluice":{"move":{"routes":["wss://b.example.org/x"],"retry_after":0}}}}}}`)
			}
			c.wantClose(3001, "shutdown")
			silent.wantClose(3001, "shutdown")
			if asked := d.take(); len(asked) != 1 || asked[0].User != "ann" || asked[0].Claims["tier"] != "vip" {
				t.Errorf("asked for %+v", asked)
			}
		})
	}
}
