package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// Commands beyond the rate of a client, or of its address, are refused and counted, and nobody else's.
func TestTooManyCommands(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    gateway.Options
		want gateway.Limited
	}{
		{"session", gateway.Options{CommandsPerSession: 5, CommandsPerAddress: -1}, gateway.Limited{Session: 51}},
		{"address", gateway.Options{CommandsPerSession: -1, CommandsPerAddress: 5}, gateway.Limited{Address: 51}},
		{"neither", gateway.Options{CommandsPerSession: -1, CommandsPerAddress: -1}, gateway.Limited{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, &tt.o)
			var other *wsClient
			if tt.name != "address" {
				other = p.client()
			}
			c := p.client() // the connect command is one
			var all strings.Builder
			for i := range 100 {
				fmt.Fprintf(&all, "{\"id\":%d,\"ping\":{}}\n", i+2)
			}
			c.send(strings.TrimSpace(all.String()))
			for i := range 100 {
				want := fmt.Sprintf(`{"id":%d,"ping":{}}`, i+2)
				if tt.name != "neither" && i >= 49 {
					want = fmt.Sprintf(`{"id":%d,"error":{"code":111,"message":"too many commands a second, try again later","temporary":true}}`, i+2)
				}
				c.want(want)
			}
			if got := p.gateway.Stats().Limited; got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if n := p.gateway.Stats().Commands[protocol.KindPing]; n != 100 {
				t.Errorf("%d pings are counted", n)
			}
			if other != nil {
				other.ask(`{"id":2,"ping":{}}`, `{"id":2,"ping":{}}`)
			}
		})
	}
}
