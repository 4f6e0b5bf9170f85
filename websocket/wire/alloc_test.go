//go:build !race

package wire_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// The race detector empties pools now and then, so these tests do not count allocations with it.

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

// TestNoAllocations checks in every run that the benchmarked operations allocate nothing.
func TestNoAllocations(t *testing.T) {
	frames := map[string]string{
		"text": clientWith(fin|text, strings.Repeat("m", 1024), [4]byte{1, 2, 3, 4}),
		"bin":  client(fin|bin, strings.Repeat("m", 1024)),
		"ping": client(fin|ping, "12345678"),
	}
	out := make([]byte, 0, 2048)
	for name, frame := range frames {
		c, in := wire.New(nil), []byte(frame)
		if n := testing.AllocsPerRun(100, func() {
			_, _, _ = c.Decode(in)
			out = c.AppendReplies(out[:0])
		}); n != 0 {
			t.Errorf("a %s frame takes %v allocations", name, n)
		}
	}
	c, partial := wire.New(nil), []byte(frames["text"])
	arrived := 6
	if n := testing.AllocsPerRun(100, func() {
		_, _, _ = c.Decode(partial[:arrived])
		arrived += 5
	}); n != 0 {
		t.Errorf("a text frame that arrives in pieces takes %v allocations a piece", n)
	}
	if n := testing.AllocsPerRun(100, func() { out = wire.AppendFrame(out[:0], wire.OpText, partial) }); n != 0 {
		t.Errorf("AppendFrame takes %v allocations", n)
	}
}
