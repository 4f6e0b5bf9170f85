package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol"
)

// Commands beyond the rate of a client, or of its address, are refused and counted, and no other client's.
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
			if tt.name != "neither" {
				p.log.expect(`msg="limit exceeded"`)
			}
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
					want = fmt.Sprintf(`{"id":%d,"error":{"code":111,"message":"too many commands per second, try again later","temporary":true}}`, i+2)
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

// A message of many commands may be longer than one command may be.
func TestLongFrame(t *testing.T) {
	const command, all = 256, 20 << 10
	p := newPlace(t, &gateway.Options{MessageBytes: command, FrameBytes: all})
	p.log.expect(`msg="limit exceeded"`)
	c := p.client()
	ping := func(id, size int) string {
		text := fmt.Sprintf(`{"id":%d,"ping":{},"x":"`, id)
		return text + strings.Repeat("x", size-len(text)-2) + `"}`
	}
	var lines []string
	for id := 2; id < 70; id++ {
		lines = append(lines, ping(id, command))
	}
	lines = append(lines, ping(70, command+1), ping(71, command))
	c.send(strings.Join(lines, "\n"))
	for id := 2; id < 70; id++ {
		c.want(fmt.Sprintf(`{"id":%d,"ping":{}}`, id))
	}
	c.want(`{"id":70,"error":{"code":106,"message":"the command has 257 bytes, at most 256 are allowed"}}`, `{"id":71,"ping":{}}`)
	c.send(strings.Repeat(" ", all-len(lines[0])) + lines[0])
	c.want(`{"id":2,"ping":{}}`)
	c.send(strings.Repeat(" ", all+1-len(lines[0])) + lines[0])
	c.wantClose(1009, "")
}
