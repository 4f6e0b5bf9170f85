package json_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
)

// tick is 256 bytes of what a market data feed publishes.
var tick = func() []byte {
	const head = `{"e":"bookTicker","s":"BTCUSDT","u":400900217,"b":"25.35190000","B":"31.21000000","a":"25.36520000","A":"40.66000000",` +
		`"T":1568014460893,"E":1568014460891,"levels":[[25.3519,31.21],[25.3501,12.5],[25.3498,7.75]],"note":"`
	return []byte(head + strings.Repeat("x", 256-len(head)-2) + `"}`)
}()

func BenchmarkDecodeCommand(b *testing.B) {
	for _, bb := range []struct{ name, line string }{
		{"pong", `{}`},
		{"ping", `{"id":17,"ping":{}}`},
		{"subscribe", `{"id":17,"subscribe":{"channel":"quotes:BTCUSDT","recoverable":true,"positioned":true,"flag":1}}`},
		{"resume", `{"id":17,"subscribe":{"channel":"quotes:BTCUSDT","flag":1,"recover":true,"offset":123456,"epoch":"kzqv"}}`},
		{"publish", `{"id":17,"publish":{"channel":"quotes:BTCUSDT","data":` + string(tick) + `}}`},
		{"publish text", `{"id":17,"publish":{"channel":"quotes:BTCUSDT","data":"` + strings.Repeat("x", 4096) + `"}}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			line := []byte(bb.line)
			b.SetBytes(int64(len(line)))
			var c protocol.Command
			for b.Loop() {
				if err := json.DecodeCommand(line, &c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendPublicationPush(b *testing.B) {
	for _, bb := range []struct {
		name string
		pub  push.Publication
	}{
		{"stream", push.Publication{Offset: 123456, Data: tick}},
		{"row with tags", push.Publication{
			Offset: 123456, Data: tick, Key: "BTCUSDT", Tags: map[string]string{"venue": "x", "kind": "quote"},
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1024)
			b.SetBytes(int64(len(bb.pub.Data)))
			for b.Loop() {
				buf = json.AppendPublicationPush(buf[:0], "quotes:BTCUSDT", &bb.pub, json.PushOptions{})
			}
		})
	}
}

func BenchmarkCompactData(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(tick)))
	for b.Loop() {
		if _, err := json.CompactData(tick); err != nil {
			b.Fatal(err)
		}
	}
}
