package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
)

// serverSubscriptions returns options with which every client is subscribed to some channels, and may do nothing else.
func serverSubscriptions(channels ...string) *gateway.Options {
	return &gateway.Options{
		Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
			id := gateway.Identity{Info: push.ClientInfo{User: "ann"}}
			for _, name := range channels {
				id.Subscriptions = append(id.Subscriptions, gateway.ServerSubscription{Channel: name, Info: []byte(`{"i":1}`), Data: []byte(`{"d":2}`)})
			}
			return id, nil
		},
		Permit: func(context.Context, *gateway.Identity, *gateway.PermitRequest) (gateway.Permission, error) {
			return gateway.Permission{}, push.ErrPermissionDenied
		},
	}
}

// TestServerSubscriptions: a client is told of the subscriptions that the server begins, gets what is published, and resumes from where it was.
func TestServerSubscriptions(t *testing.T) {
	p := newPlace(t, serverSubscriptions("a", "chat:b"))
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	got := c.receive()
	for _, part := range []string{
		`"subs":{"a":{"recoverable":true,"epoch":"` + p.epoch("a") + `","positioned":true,"data":{"d":2}},"chat:b":{`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("connecting was answered %s, want a part %s", got, part)
		}
	}
	p.publish("a", "1")
	c.want(`{"push":{"channel":"a","pub":{"data":1,"offset":1}}}`)
	c.ask(`{"id":2,"subscribe":{"channel":"c"}}`, `{"id":2,"error":{"code":103,"message":"permission denied"}}`)
	if members, err := p.hub.Presence(t.Context(), "chat:b"); err != nil || len(members) != 1 {
		t.Errorf("present are %v, %v", members, err)
	} else {
		for _, info := range members {
			if string(info.ChanInfo) != `{"i":1}` || info.User != "ann" {
				t.Errorf("present as %+v", info)
			}
		}
	}
	must(t, c.conn.Close())
	p.publish("a", "2")
	again := p.connectWS(nil)
	again.send(`{"id":1,"connect":{"subs":{"a":{"recover":true,"epoch":"` + p.epoch("a") + `","offset":1},"c":{"recover":true}}}}`)
	got = again.receive()
	if !strings.Contains(got, `"publications":[{"data":2,"offset":2}],"recovered":true`) || strings.Contains(got, `"c":{`) {
		t.Errorf("resuming was answered %s", got)
	}
	p.publish("a", "3")
	again.want(`{"push":{"channel":"a","pub":{"data":3,"offset":3}}}`)
}

// TestServerSubscriptionsFirst: nothing comes before the answer to the connect command, and nothing is missing after it, however much is published
// meanwhile.
func TestServerSubscriptionsFirst(t *testing.T) {
	p := newPlace(t, serverSubscriptions("a", "b", "d", "e"))
	stop := make(chan struct{})
	var publishers sync.WaitGroup
	publishers.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				p.publish([]string{"a", "b", "d", "e"}[i%4], fmt.Sprint(i))
			}
		}
	})
	defer publishers.Wait()
	defer close(stop)
	for range 20 {
		c := p.connectWS(nil)
		c.send(`{"id":1,"connect":{}}`)
		told := c.receive()
		if !strings.HasPrefix(told, `{"id":1,"connect":{`) {
			t.Fatalf("first came %s", told)
		}
		if got := c.receive(); !strings.HasPrefix(got, `{"push":{"channel":`) {
			t.Errorf("then came %s", got)
		}
		must(t, c.conn.Close())
	}
}

// TestServerSubscriptionEnds: a client cannot begin such a subscription again by itself. When it would have to, its connection ends so that it
// connects again; when it is over for good, it is told so.
func TestServerSubscriptionEnds(t *testing.T) {
	p := newPlace(t, serverSubscriptions("a", "b"))
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	c.receive()
	must(t, p.hub.Unsubscribe(t.Context(), hub.Target{User: "ann"}, "a", push.UnsubscribeServer))
	c.want(`{"push":{"channel":"a","unsubscribe":{"code":2000,"reason":"server unsubscribe"}}}`)
	must(t, p.hub.Unsubscribe(t.Context(), hub.Target{User: "ann"}, "b", push.UnsubscribeInsufficientState))
	c.wantClose(3010, "insufficient state")
}

// TestServerSubscriptionRefused: a client whose subscription cannot begin is not connected.
func TestServerSubscriptionRefused(t *testing.T) {
	p := newPlace(t, serverSubscriptions("a", "nowhere:b"))
	c := p.connectWS(nil)
	c.send(`{"id":1,"connect":{}}`)
	c.wantClose(3501, "nowhere")
	testwait.True(t, "nobody is subscribed", func() bool { return len(p.hub.Channels("*")) == 0 })
}
