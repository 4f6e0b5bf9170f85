package wire_test

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/websocket/wire"
)

// deflated returns a server's codec with compression and contexts on both sides.
func deflated(tb testing.TB, o wire.Options) *wire.Codec {
	tb.Helper()
	o.Compression = &wire.Compression{Takeover: true, PeerTakeover: true}
	return connect(tb, &wire.Options{Compression: o.Compression}, &o).server
}

// TestDeflateExamples decodes the messages of RFC 7692 §7.2.3.
func TestDeflateExamples(t *testing.T) {
	for name, frames := range map[string][]string{
		"§7.2.3.1 one block":        {"f248cdc9c90700"},
		"§7.2.3.2 with the context": {"f248cdc9c90700", "f200110000"},
		"§7.2.3.3 not compressed":   {"000500faff48656c6c6f00"},
		"§7.2.3.4 a last block":     {"f348cdc9c9070000"},
		"§7.2.3.5 two blocks":       {"f24805000000ffffcac9c90700"},
	} {
		c := deflated(t, wire.Options{})
		for _, frame := range frames {
			payload, err := hex.DecodeString(frame)
			if err != nil {
				t.Fatal(err)
			}
			in := []byte(client(fin|0x40|text, string(payload)))
			if msg, n, err := c.Decode(in); string(msg) != "Hello" || n != len(in) || err != nil {
				t.Errorf("%s: %q, %d, %v", name, msg, n, err)
			}
		}
	}
	c := deflated(t, wire.Options{})
	first, second := "f248cd", "c9c90700"
	a, _ := hex.DecodeString(first)
	b, _ := hex.DecodeString(second)
	got := feed(t, c, []byte(client(0x40|text, string(a))+client(fin|ping, "")+client(fin|cont, string(b))), false, func() int { return 1 })
	if len(got.messages) != 1 || got.messages[0].data != "Hello" {
		t.Errorf("§7.2.3.1 in two fragments: %v", got)
	}
}

// squeeze compresses as a peer does, with compress/flate.
func squeeze(data string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	_, _ = w.Write([]byte(data))
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

// TestDeflateViolations: an invalid compressed message ends the connection with its code, at the first byte that shows the error.
func TestDeflateViolations(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		code         uint16
	}{
		{"the bit on a continuation", client(0x40|text, "") + client(fin|0x40|cont, ""), 1002},
		{"the bit on a ping", client(fin|0x40|ping, ""), 1002},
		{"another bit", client(fin|0x60|text, ""), 1002},
		{"not DEFLATE", client(fin|0x40|bin, "\xff\xff"), 1007},
		{"cut off", client(fin|0x40|bin, squeeze("Hello, hello")[:5]), 1007},
		{"before the beginning", client(fin|0x40|bin, "\xf2\x00\x11\x00\x00"), 1007},
		{"too large inflated", client(fin|0x40|bin, squeeze(strings.Repeat("x", 1001))), 1009},
		{"a bomb", client(fin|0x40|bin, squeeze(strings.Repeat("\x00", 1<<20))), 1009},
		{"too large as it is", client(fin|0x40|bin, strings.Repeat("x", 1000+125+65)), 1009},
		{"too large in fragments", client(0x40|bin, strings.Repeat("x", 1000)) + client(cont, strings.Repeat("x", 190)), 1009},
		{"not UTF-8", client(fin|0x40|text, squeeze("\xff")), 1007},
		{"half a character", client(fin|0x40|text, squeeze("\xc3")), 1007},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := agree(t, func() *wire.Codec { return deflated(t, *limits) }, []byte(tt.stream))
			end := verdict(t, deflated(t, *limits), tt.stream)
			if end.Code != tt.code || end.Remote || len(got.messages) > 0 {
				t.Errorf("ended with %v, want %d", end, tt.code)
			}
		})
	}
	if end := verdict(t, wire.New(nil), client(fin|0x40|text, "")); end.Code != 1002 {
		t.Errorf("compressed although it was not agreed on: %v", end)
	}
	got := feed(t, deflated(t, *limits), []byte(client(fin|0x40|bin, squeeze(strings.Repeat("x", 1000)))), false, func() int { return 1 })
	if len(got.messages) != 1 || len(got.messages[0].data) != 1000 {
		t.Errorf("the largest message: %v", got)
	}
}

// FuzzDeflated: a compressed stream has the same result however it is cut, and never exceeds the limit.
func FuzzDeflated(f *testing.F) {
	for _, seed := range []string{
		client(fin|0x40|text, squeeze("Hello")) + client(fin|0x40|text, "\xf2\x00\x11\x00\x00"), client(0x40|bin, squeeze("ab")) + client(fin|cont, ""),
		client(fin|0x40|bin, squeeze(strings.Repeat("x", 2000))), client(fin|0x40|bin, "\x05\xc0\x81\x00"), client(fin|text, "plain") + client(fin|0x40|text, ""),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		got := agree(t, func() *wire.Codec { return deflated(t, *limits) }, stream)
		for _, m := range got.messages {
			if len(m.data) > limits.MaxMessage {
				t.Errorf("a message of %d bytes", len(m.data))
			}
		}
	})
}
