//go:build !race

package wire_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// The race detector empties pools now and then, so what is counted here is not counted with it.

// TestDeflatedAllocations: compressing and inflating allocate nothing in steady state, with contexts and without.
func TestDeflatedAllocations(t *testing.T) {
	for name, takeover := range map[string]bool{"with contexts": true, "without": false} {
		c := &wire.Compression{Takeover: takeover, PeerTakeover: takeover}
		p := connect(t, &wire.Options{Compression: c}, &wire.Options{Compression: c})
		data := []byte(strings.Repeat("ticks and trades, ", 50))
		stream := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(200, func() {
			stream, _ = p.client.AppendMessage(stream[:0], wire.OpText, data)
			if msg, _, err := p.server.Decode(stream); len(msg) != len(data) || err != nil {
				t.Fatal(len(msg), err)
			}
			p.server.Release()
		}); n > 0 {
			t.Errorf("%s: %v allocations a message", name, n)
		}
	}
}
