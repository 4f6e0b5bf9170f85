package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
)

// A token in these tests is a user and a number of seconds: what it is for ends so long after it was checked; 0: never.
func parseToken(token string) (user string, expires time.Time, err error) {
	user, seconds, _ := strings.Cut(token, " ")
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return "", expires, push.ErrTokenExpired
	}
	if n > 0 {
		expires = time.Now().Add(time.Duration(n) * time.Second)
	}
	return user, expires, nil
}

// expiring returns options with tokens of connections and subscriptions.
func expiring() *gateway.Options {
	return &gateway.Options{
		ExpiryGrace: 10 * time.Second,
		Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
			user, expires, err := parseToken(token)
			return gateway.Identity{Info: push.ClientInfo{User: user}, Expires: expires}, err
		},
		Permit: func(_ context.Context, id *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
			if r.Token == "" {
				return gateway.Permission{}, nil
			}
			user, expires, err := parseToken(r.Token)
			if err == nil && user != id.Info.User {
				err = push.ErrPermissionDenied
			}
			return gateway.Permission{Expires: expires, Info: []byte(`{"seat":7}`)}, err
		},
	}
}

func (c *wsClient) connectAs(token string) {
	c.t.Helper()
	c.send(`{"id":1,"connect":{"token":"` + token + `"}}`)
	if got := c.receive(); !strings.Contains(got, `"connect":{`) {
		c.t.Fatalf("connecting was answered %s", got)
	}
}

// wantParts fails the test unless the next messages have these parts, in their order.
func (c *wsClient) wantParts(parts ...string) {
	c.t.Helper()
	for _, part := range parts {
		if got := c.receive(); !strings.Contains(got, part) {
			c.t.Fatalf("received %s, want a part %s", got, part)
		}
	}
}

// TestConnectionExpires: the client is told when, has a grace, and is then told to connect again. Pings go on meanwhile, and change nothing.
func TestConnectionExpires(t *testing.T) {
	for _, interval := range []time.Duration{-1, 4 * time.Second} {
		o := expiring()
		o.PingInterval, o.PongTimeout = interval, -1
		inFakeTime(t, o, func(t *testing.T, p *place) {
			c := p.connectWS(nil).forever()
			passed := stopwatch()
			c.send(`{"id":1,"connect":{"token":"ann 30"}}`)
			c.wantParts(`"expires":true,"ttl":30`)
			if interval > 0 {
				c.want(slices.Repeat([]string{"{}"}, 9)...)
			}
			c.wantClose(3005, "connection expired")
			within(t, "the end", passed(), 39, 42)
			if n := p.gateway.Stats().Transports["websocket"].Disconnected[3005]; n != 1 {
				t.Errorf("%d were counted as expired", n)
			}
		})
	}
}

// TestRefresh: a connection goes on for as long as it is refreshed, at the latest within the grace; a token of another user ends it, and so does
// an expired one.
func TestRefresh(t *testing.T) {
	o := expiring()
	o.PingInterval = -1
	inFakeTime(t, o, func(t *testing.T, p *place) {
		c := p.connectWS(nil).forever()
		c.connectAs("ann 30")
		for i := range 5 {
			pass(35 * time.Second) // expired, within the grace
			c.send(fmt.Sprintf(`{"id":%d,"refresh":{"token":"ann 30"}}`, i+2))
			c.wantParts(`"expires":true,"ttl":30`)
		}
		c.ask(`{"id":11,"refresh":{}}`, `{"id":11,"error":{"code":107,"message":"refresh.token is missing"}}`)
		c.send(`{"id":12,"refresh":{"token":"ann 0"}}`)
		if got := c.receive(); strings.Contains(got, "expires") || !strings.Contains(got, `"refresh":{"client":`) {
			t.Errorf("the connection expires after %s", got)
		}
		pass(time.Hour)
		c.send(`{"id":13,"refresh":{"token":"bob 30"}}`)
		c.wantClose(3500, "invalid token")
		c = p.connectWS(nil).forever()
		c.connectAs("ann 30")
		c.send(`{"id":2,"refresh":{"token":"ann"}}`)
		c.wantClose(3005, "connection expired")
	})
}

// TestRefreshedIdentity: rights are those of the newest token.
func TestRefreshedIdentity(t *testing.T) {
	p := newPlace(t, &gateway.Options{
		Authenticate: func(_ context.Context, token string, r *http.Request) (gateway.Identity, error) {
			if (r == nil) != (token == "new") {
				t.Errorf("the token %q comes with the request %v", token, r)
			}
			return gateway.Identity{Rights: token}, nil
		},
		Permit: func(_ context.Context, id *gateway.Identity, _ *gateway.PermitRequest) (gateway.Permission, error) {
			if id.Rights != "new" {
				return gateway.Permission{}, push.ErrPermissionDenied
			}
			return gateway.Permission{}, nil
		},
	})
	c := p.connectWS(nil)
	c.connectAs("old")
	c.ask(`{"id":2,"publish":{"channel":"a","data":1}}`, `{"id":2,"error":{"code":103,"message":"permission denied"}}`)
	c.send(`{"id":3,"refresh":{"token":"new"}}`)
	c.receive()
	c.ask(`{"id":4,"publish":{"channel":"a","data":1}}`, `{"id":4,"publish":{}}`)
}

// TestSubscriptionExpires: the client is told when, may refresh within the grace, and is then unsubscribed; other subscriptions go on.
func TestSubscriptionExpires(t *testing.T) {
	o := expiring()
	o.PingInterval = -1
	inFakeTime(t, o, func(t *testing.T, p *place) {
		c := p.connectWS(nil).forever()
		c.connectAs("ann 0")
		c.send(`{"id":2,"subscribe":{"channel":"chat:a","token":"ann 30"}}`)
		c.wantParts(`"expires":true,"ttl":30`)
		c.send(`{"id":3,"subscribe":{"channel":"chat:b"}}`)
		if got := c.receive(); strings.Contains(got, "expires") {
			t.Errorf("a subscription without a token expires: %s", got)
		}
		c.send(`{"id":4,"presence":{"channel":"chat:a"}}`)
		c.wantParts(`"chan_info":{"seat":7}`)
		passed := stopwatch()
		pass(35 * time.Second)
		c.ask(`{"id":5,"sub_refresh":{"channel":"chat:a","token":"ann 30"}}`, `{"id":5,"sub_refresh":{"expires":true,"ttl":30}}`)
		c.ask(`{"id":6,"sub_refresh":{"channel":"chat:a","token":"bob 30"}}`, `{"id":6,"error":{"code":103,"message":"permission denied"}}`)
		c.ask(`{"id":7,"sub_refresh":{"channel":"chat:a"}}`, `{"id":7,"error":{"code":107,"message":"sub_refresh.token is missing"}}`)
		c.ask(`{"id":8,"sub_refresh":{"channel":"chat:c","token":"ann 30"}}`, `{"id":8,"error":{"code":103,"message":"the client is not subscribed to the channel"}}`)
		c.want(`{"push":{"channel":"chat:a","unsubscribe":{"code":2501,"reason":"subscription expired"}}}`)
		within(t, "the end", passed(), 74, 77)
		c.ask(`{"id":9,"publish":{"channel":"chat:b","data":1}}`, `{"id":9,"publish":{}}`)
		c.wantParts(`"channel":"chat:b","pub":{"data":1`)
	})
}

// TestSubscriptionLeft: when a subscription was to expire is forgotten when the client leaves the channel, or comes back without a token.
func TestSubscriptionLeft(t *testing.T) {
	o := expiring()
	o.PingInterval = -1
	inFakeTime(t, o, func(t *testing.T, p *place) {
		c := p.connectWS(nil).forever()
		c.connectAs("ann 0")
		c.send(`{"id":2,"subscribe":{"channel":"a","token":"ann 30"}}`)
		c.receive()
		c.ask(`{"id":3,"unsubscribe":{"channel":"a"}}`, `{"id":3,"unsubscribe":{}}`)
		c.send(`{"id":4,"subscribe":{"channel":"a"}}`)
		c.receive()
		pass(time.Hour)
		c.ask(`{"id":5,"ping":{}}`, `{"id":5,"ping":{}}`) // nothing came before
	})
}
