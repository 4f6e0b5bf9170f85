package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/presence"
)

// An answer names so many clients of a channel at most, and to ask again and again is bounded by how many there are.
func TestManyPresent(t *testing.T) {
	p := newPlace(t, &gateway.Options{CommandsPerSession: 20})
	book := presence.Book{Leases: p.broker, TTL: time.Hour}
	for i := range 1001 {
		must(t, book.Enter(t.Context(), presence.NewKey("chat:1"), &push.ClientInfo{Client: fmt.Sprint(i)}))
	}
	c := p.client()
	c.ask(`{"id":2,"presence":{"channel":"chat:1"}}`, `{"id":2,"error":{"code":106,"message":"1001 clients are in the channel, and an answer has 1000 at most: ask for presence stats"}}`)
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
