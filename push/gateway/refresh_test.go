package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
)

// listed returns options with tokens such as "a b|c": the channels that the client may subscribe to, and those to which the server subscribes it.
func listed() *gateway.Options {
	return &gateway.Options{
		Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
			may, has, _ := strings.Cut(token, "|")
			id := gateway.Identity{Rights: strings.Fields(may)}
			for _, name := range strings.Fields(has) {
				id.Subscriptions = append(id.Subscriptions, gateway.ServerSubscription{Channel: name})
			}
			return id, nil
		},
		Permit: func(_ context.Context, id *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
			if may, ok := id.Rights.([]string); r.Token == "" && (!ok || !slices.Contains(may, r.Channel)) {
				return gateway.Permission{}, push.ErrPermissionDenied
			}
			return gateway.Permission{}, nil
		},
	}
}

// A refresh ends the subscriptions that the old token permitted and the new one does not. Subscriptions that both permit go on, and so do subscriptions
// with a token of their own. The client is refused when it subscribes again, until it is permitted.
func TestRefreshTakesSubscriptions(t *testing.T) {
	p := newPlace(t, listed())
	c := p.connectWS(nil)
	c.connectAs("a b d|s")
	for i, r := range []string{`"channel":"a"`, `"channel":"b"`, `"channel":"c","token":"x"`} {
		c.send(fmt.Sprintf(`{"id":%d,"subscribe":{%s}}`, i+2, r))
		c.wantParts(`"subscribe":{`)
	}
	c.send(`{"id":10,"refresh":{"token":"b|s e"}}`)
	c.wantParts(`{"id":10,"refresh":{`)
	c.want(`{"push":{"channel":"a","unsubscribe":{"code":2500,"reason":"insufficient state"}}}`)
	c.ask(`{"id":11,"subscribe":{"channel":"a"}}`, `{"id":11,"error":{"code":103,"message":"permission denied"}}`)
	for _, name := range []string{"a", "b", "c", "s"} {
		at := p.publish(name, "1")
		if name != "a" {
			c.want(fmt.Sprintf(`{"push":{"channel":"%s","pub":{"data":1,"offset":%d}}}`, name, at.Offset))
		}
	}
	c.send(`{"id":12,"refresh":{"token":"a b|s"}}`)
	c.wantParts(`{"id":12,"refresh":{`)
	c.send(`{"id":13,"subscribe":{"channel":"a"}}`)
	c.wantParts(`{"id":13,"subscribe":{`)
}

// A client that a refresh takes a subscription of the server's connects again: it is then as its new token says.
func TestRefreshTakesServerSubscription(t *testing.T) {
	p := newPlace(t, listed())
	c := p.connectWS(nil)
	c.connectAs("|s t")
	c.send(`{"id":2,"refresh":{"token":"|t"}}`)
	c.wantParts(`{"id":2,"refresh":{`)
	c.wantClose(3010, "insufficient state")
}
