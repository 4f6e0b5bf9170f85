package gateway_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
)

// When very many clients do not read, those with the largest queues are cut, and those that read notice nothing.
func TestBacklog(t *testing.T) {
	const deaf, bound = 16, 128 << 10
	p := newPlace(t, &gateway.Options{Backlog: bound, SendBuffer: 4 << 10, WriteTimeout: -1})
	p.log.expect("clients were cut, for too much waited for all of them together")
	witness := p.client()
	pings := strings.Repeat(frame(0x89, 125, strings.Repeat("x", 125)), 100)
	for range deaf {
		c := p.client()
		go func() {
			for err := error(nil); err == nil; { // until it is cut
				_, err = c.conn.NetConn().Write([]byte(pings))
			}
		}()
	}
	testwait.True(t, "clients that do not read are cut", func() bool {
		return p.gateway.Stats().Transports[gateway.WebSocket].Disconnected[uint32(push.DisconnectSlow.Code)] > 0
	})
	testwait.True(t, "as much waits as may", func() bool { return p.gateway.Stats().QueueBytes <= bound })
	if n := p.gateway.Len(); n < 2 {
		t.Errorf("%d clients are left: all were cut", n)
	}
	witness.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
}
