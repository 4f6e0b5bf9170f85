package gateway_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
)

// forever takes the deadlines away that bound other tests: in fake time nothing takes long.
func (c *wsClient) forever() *wsClient {
	must(c.t, c.conn.SetReadDeadline(time.Time{}))
	must(c.t, c.conn.SetWriteDeadline(time.Time{}))
	return c
}

func TestPing(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: 10 * time.Second, PongTimeout: 3 * time.Second}, func(t *testing.T, p *place) {
		c := p.client().forever()
		for range 5 {
			passed := stopwatch()
			c.want("{}")
			within(t, "a ping", passed(), 9, 11)
			c.send("{}")
		}
		for range 3 { // any sign of life will do
			c.want("{}")
			c.ask(`{"id":5,"ping":{}}`, `{"id":5,"ping":{}}`)
		}
		c.want("{}")
		passed := stopwatch()
		c.wantClose(3012, "no pong")
		within(t, "no pong", passed(), 3, 5)
	})
}

// TestPingWithoutPong: when no answer is wanted, pings go on all the same.
func TestPingWithoutPong(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: time.Second, PongTimeout: -1}, func(_ *testing.T, p *place) {
		c := p.client().forever()
		for range 20 {
			c.want("{}")
		}
		c.send("{}")
		for range 20 {
			c.want("{}")
		}
	})
}

// TestPingDuringLongPong: while an answer is awaited for longer than the interval, pings go on.
func TestPingDuringLongPong(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: 5 * time.Second, PongTimeout: 30 * time.Second}, func(t *testing.T, p *place) {
		c := p.client().forever()
		passed := stopwatch()
		c.want("{}", "{}", "{}", "{}")
		c.send("{}")
		c.want("{}", "{}", "{}", "{}", "{}", "{}", "{}")
		within(t, "no end", passed(), 50, 60)
		c.conn.SetReadLimit(100)
		for {
			if _, _, err := c.conn.ReadMessage(); err != nil {
				break
			}
		}
		within(t, "the end", passed(), 50, 60)
	})
}

// TestNoPings: nothing is sent, and no client has to answer.
func TestNoPings(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: -1}, func(_ *testing.T, p *place) {
		c := p.client().forever()
		pass(time.Hour)
		c.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
	})
}

// TestNeverConnects: a connection without a connect command ends, whatever else comes on it.
func TestNeverConnects(t *testing.T) {
	for name, message := range map[string]string{"silent": "", "pongs": "{}", "blank": "\n"} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, &gateway.Options{ConnectTimeout: 5 * time.Second}, func(t *testing.T, p *place) {
				c := p.connectWS(nil).forever()
				passed := stopwatch()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for message != "" && c.conn.WriteMessage(1, []byte(message)) == nil {
						pass(time.Second)
					}
				}()
				c.wantClose(3502, "stale")
				within(t, "the end", passed(), 5, 7)
				testwait.Receive(t, done)
				pass(time.Minute)
				if n := p.gateway.Len(); n != 0 {
					t.Errorf("%d clients are left", n)
				}
			})
		})
	}
}

// TestRefusedConnect: who is refused may try again, but not for ever.
func TestRefusedConnect(t *testing.T) {
	o := &gateway.Options{ConnectTimeout: 5 * time.Second, Authenticate: refuseAll}
	inFakeTime(t, o, func(t *testing.T, p *place) {
		c := p.connectWS(nil).forever()
		passed := stopwatch()
		for passed() < 4 {
			c.ask(`{"id":1,"connect":{}}`, `{"id":1,"error":{"code":101,"message":"unauthorized"}}`)
			pass(time.Second)
		}
		c.wantClose(3502, "stale")
		within(t, "the end", passed(), 5, 7)
	})
}

// TestDeaf: a client that takes nothing any more is given up after the write time-out, also when it is the ping that it does not take.
func TestDeaf(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: 5 * time.Second}, func(t *testing.T, p *place) {
		p.subscriber("a").forever()
		passed := stopwatch()
		for p.gateway.Len() > 0 && passed() < 120 {
			pass(time.Second)
		}
		within(t, "the end", passed(), 14, 30)
	})
}
