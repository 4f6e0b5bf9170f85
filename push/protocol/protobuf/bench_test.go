package protobuf_test

import (
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/json"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"google.golang.org/protobuf/proto"
)

// tick is 256 bytes of what a market data feed publishes.
var tick = func() []byte {
	const head = `{"e":"bookTicker","s":"BTCUSDT","u":400900217,"b":"25.35190000","B":"31.21000000","a":"25.36520000","A":"40.66000000",` +
		`"T":1568014460893,"E":1568014460891,"levels":[[25.3519,31.21],[25.3501,12.5],[25.3498,7.75]],"note":"`
	return []byte(head + strings.Repeat("x", 256-len(head)-2) + `"}`)
}()

// The commands and publications of the benchmarks of all forms.
var (
	benchCommands = []struct {
		name    string
		command protocol.Command
	}{
		{"pong", protocol.Command{}},
		{"subscribe", protocol.Command{ID: 17, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
			Channel: "quotes:BTCUSDT", Recoverable: true, Positioned: true, Flag: 1,
		}}},
		{"publish", protocol.Command{ID: 17, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "quotes:BTCUSDT", Data: tick}}},
	}
	benchPublications = []struct {
		name string
		pub  push.Publication
	}{
		{"stream", push.Publication{Offset: 123456, Data: tick}},
		{"row with tags", push.Publication{
			Offset: 123456, Data: tick, Key: "BTCUSDT", Tags: map[string]string{"venue": "x", "kind": "quote"},
		}},
		{"large", push.Publication{Offset: 123456, Data: []byte(`"` + strings.Repeat("x", 16_000) + `"`)}},
	}
)

func BenchmarkDecodeCommand(b *testing.B) {
	for _, bb := range benchCommands {
		message := only(b, protobuf.AppendCommand(nil, &bb.command))
		line := json.AppendCommand(nil, &bb.command)
		for _, form := range []struct {
			name   string
			decode func(c *protocol.Command) error
		}{
			{"protobuf", func(c *protocol.Command) error { return protobuf.DecodeCommand(message, c) }},
			{"json", func(c *protocol.Command) error { return json.DecodeCommand(line, c) }},
			{"generated", func(*protocol.Command) error { return proto.Unmarshal(message, &clientv1.Command{}) }},
		} {
			b.Run(bb.name+"/"+form.name, func(b *testing.B) {
				b.ReportAllocs()
				var c protocol.Command
				for b.Loop() {
					if err := form.decode(&c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppendPublicationPush(b *testing.B) {
	for _, bb := range benchPublications {
		p := &bb.pub
		generated := &clientv1.Reply{Push: generatedPush(&protocol.Push{
			Channel: "quotes:BTCUSDT", Kind: protocol.PushPublication, Publication: *p,
		})}
		for _, form := range []struct {
			name   string
			append func(dst []byte) []byte
		}{
			{"protobuf", func(dst []byte) []byte {
				return protobuf.AppendPublicationPush(dst, "quotes:BTCUSDT", p, protobuf.PushOptions{})
			}},
			{"json", func(dst []byte) []byte {
				return json.AppendPublicationPush(dst, "quotes:BTCUSDT", p, json.PushOptions{})
			}},
			{"generated", func(dst []byte) []byte {
				dst, _ = proto.MarshalOptions{}.MarshalAppend(dst, generated)
				return dst
			}},
		} {
			b.Run(bb.name+"/"+form.name, func(b *testing.B) {
				b.ReportAllocs()
				buf := make([]byte, 0, 32<<10)
				for b.Loop() {
					buf = form.append(buf[:0])
				}
			})
		}
	}
}
