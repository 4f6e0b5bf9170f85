package protobuf_test

import (
	"testing"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// Appending allocates nothing if dst has room, whatever is appended.
func TestAppendDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1<<20)
	check := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(20, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for i := range commands {
		if c := &commands[i]; c.Subscribe.Filter == nil {
			check("command "+c.Kind.String(), func() { protobuf.AppendCommand(buf, c) })
		}
	}
	for i := range replies {
		r := &replies[i]
		check("reply "+r.Kind.String()+" "+r.Push.Kind.String(), func() { protobuf.AppendReply(buf, r) })
		check("push "+r.Push.Kind.String(), func() { protobuf.AppendPush(buf, &r.Push, protobuf.PushOptions{}) })
		check("publication", func() { protobuf.AppendPublicationPush(buf, "channel", &r.Push.Publication, protobuf.PushOptions{}) })
		if r.Error != nil {
			check("error", func() { protobuf.AppendErrorReply(buf, r.ID, r.Error) })
		}
	}
}

// Decoding allocates strings and maps only.
func TestDecodeAllocations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command protocol.Command
		most    float64
	}{
		{"pong", protocol.Command{}, 0},
		{"ping", protocol.Command{ID: 1, Kind: protocol.KindPing}, 0},
		{"rpc", protocol.Command{ID: 1, Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Data: tick}}, 0},
		{"publish", protocol.Command{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Channel: "quotes:ABC", Key: "ABC", Data: tick}}, 2},
	} {
		message := only(t, protobuf.AppendCommand(nil, &tt.command))
		var c protocol.Command
		n := testing.AllocsPerRun(20, func() {
			if err := protobuf.DecodeCommand(message, &c); err != nil {
				t.Fatal(err)
			}
		})
		if n > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, n, tt.most)
		}
	}
}
