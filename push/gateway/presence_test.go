package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/presence"
)

// A client that was disconnected and does not answer is not present any more.
func TestAbsentOnceDisconnected(t *testing.T) {
	var o gateway.Options
	o.Linger = time.Hour
	p := newPlace(t, &o)
	deaf, other := p.client(), p.client()
	deaf.ask(`{"id":2,"subscribe":{"channel":"chat:1"}}`, strings.ReplaceAll(`{"id":2,"subscribe":{"recoverable":true,"epoch":"EPOCH","positioned":true}}`, "EPOCH", p.epoch("chat:1")))
	other.ask(`{"id":2,"presence_stats":{"channel":"chat:1"}}`, `{"id":2,"presence_stats":{"num_clients":1,"num_users":1}}`)
	if _, err := deaf.conn.NetConn().Write([]byte(text("no command"))); err != nil { // it never reads the close frame that this gets
		t.Fatal(err)
	}
	testwait.True(t, "it is absent", func() bool {
		other.send(`{"id":3,"presence_stats":{"channel":"chat:1"}}`)
		return other.receive() == `{"id":3,"presence_stats":{"num_clients":0,"num_users":0}}`
	})
	_ = deaf.conn.NetConn().Close()
}

// An answer names so many clients of a channel at most, and to ask again and again is bounded by how many there are.
func TestManyPresent(t *testing.T) {
	p := newPlace(t, &gateway.Options{CommandsPerSession: 20})
	p.log.expect(`msg="limit exceeded"`)
	registry := presence.Registry{Leases: p.broker, TTL: time.Hour}
	for i := range 1001 {
		must(t, registry.Enter(t.Context(), presence.NewKey("chat:1"), &push.ClientInfo{Client: fmt.Sprint(i)}))
	}
	c := p.client()
	c.ask(`{"id":2,"presence":{"channel":"chat:1"}}`, `{"id":2,"error":{"code":106,"message":"the channel has 1001 clients, more than the 1000 of one answer: use presence stats"}}`)
	for id := 3; p.gateway.Stats().Limited.Session == 0; id++ {
		if id > 10 {
			t.Fatal("it may be asked more often than commands are allowed")
		}
		c.send(fmt.Sprintf(`{"id":%d,"presence_stats":{"channel":"chat:1"}}`, id))
		if line := c.receive(); line == "" {
			t.Fatal("no answer")
		}
	}
}
