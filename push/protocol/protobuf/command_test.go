package protobuf_test

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"google.golang.org/protobuf/encoding/protowire"
)

// only returns the single message of a frame.
func only(t testing.TB, frame []byte) []byte {
	t.Helper()
	message, rest, err := protobuf.Next(frame)
	if err != nil || message == nil || len(rest) > 0 {
		t.Fatalf("frame %x: message %x, rest %x, error %v", frame, message, rest, err)
	}
	return message
}

// build returns a message of fields; a value is an integer, a string, or a message.
func build(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch value := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(value))
		case uint64: // does not fit into an int everywhere
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), value)
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
		}
	}
	return b
}

func TestCommandForms(t *testing.T) {
	seen := make(map[protocol.Kind]bool)
	for _, c := range commands {
		t.Run(c.Kind.String(), func(t *testing.T) {
			frame := protobuf.AppendCommand(nil, &c)
			if want := marshal(t, generatedCommand(t, &c)); string(frame) != string(want) {
				t.Errorf("encoded\n%x, generated code has\n%x", frame, want)
			}
			got := protocol.Command{ID: 99, Publish: protocol.PublishRequest{Key: "left over"}}
			if err := protobuf.DecodeCommand(only(t, frame), &got); err != nil {
				t.Fatal(err)
			}
			want := c
			if want.ID != 0 && want.Kind == protocol.KindNone {
				want.Kind = protocol.KindUnknown // as in JSON
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, want)
			}
		})
		seen[c.Kind] = true
	}
	for kind := protocol.KindConnect; kind < protocol.KindPush; kind++ {
		if !seen[kind] {
			t.Errorf("no form of %s", kind)
		}
	}
}

// Bytes that generated code has written. Clients of all languages send and read them, so they stay as they are.
func TestExactBytes(t *testing.T) {
	command := func(c protocol.Command) []byte { return protobuf.AppendCommand(nil, &c) }
	reply := func(r protocol.Reply) []byte { return protobuf.AppendReply(nil, &r) }
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"pong", command(protocol.Command{}), "00"},
		{"connect", command(protocol.Command{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{
			Token: "t", Data: []byte(`{}`), Name: "js", Flag: 1,
			Subs: map[string]protocol.SubscribeRequest{"a": {Channel: "a", Recover: true, Position: push.Position{Epoch: "e", Offset: 300}}},
		}}), "200801221c0a017412027b7d1a0d0a01611208180132016538ac0222026a733801"},
		{"subscribe", command(protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{
			Channel: "a", Filter: []byte(`{"key":"k","cmp":"eq","val":"v"}`), Flag: 1, Type: 1, Phase: 2, Cursor: "c", Limit: -1,
		}}), "2a08022a260a01616a0a12016b1a026571220176700178018001028a0101639001ffffffffffffffffff01"},
		{"publish", command(protocol.Command{ID: 3, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{
			Channel: "a", Data: []byte("1"), Type: 1, Key: "k", Removed: true, Tags: map[string]string{"x": "y"},
		}}), "1a08033a160a0161120131180122016b2801c23e060a0178120179"},
		{"history", command(protocol.Command{ID: 4, Kind: protocol.KindHistory, History: protocol.HistoryRequest{
			Channel: "a", Limit: -1, HasSince: true, Since: push.Position{Epoch: "e", Offset: 9}, Reverse: true,
		}}), "1b080452170a016138ffffffffffffffffff01420508091201654801"},
		{
			"rpc", command(protocol.Command{ID: 1<<32 - 1, Kind: protocol.KindRPC, RPC: protocol.RPCRequest{Data: []byte("1"), Method: "m"}}),
			"0e08ffffffff0f6a060a013112016d",
		},
		{"error", reply(protocol.Reply{ID: 2, Error: &push.Error{Code: 109, Message: "no", Temporary: true}}), "0c08021208086d12026e6f1801"},
		{"connected", reply(protocol.Reply{ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectResult{
			Client: "c", Version: "v", Expires: true, TTL: 60, Data: []byte("1"), Ping: 25, Pong: true, Session: "s", Node: "n",
		}}), "1b08012a170a01631201761801203c2a0131381940014a017352016e"},
		{"subscribed", reply(protocol.Reply{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeResult{
			Position: push.Position{Epoch: "e", Offset: 9}, ID: 7, Phase: 2, Cursor: "c", State: []push.Publication{{Key: "k", Data: []byte("1")}},
		}}), "1b08023217320165480970078001028a0101639201062201315a016b"},
		{"publication", reply(pushReply(protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{
			Data: []byte("1"), Info: &push.ClientInfo{User: "u", Client: "c"}, Offset: 300, Tags: map[string]string{"x": "y"}, Delta: true,
			Key: "k", Op: push.Remove,
		}})), "242222120161221d2201312a060a017512016330ac023a060a017812017940015a016b6001"},
		{
			"clearing", reply(pushReply(protocol.Push{ID: 7, Kind: protocol.PushPublication, Publication: push.Publication{Offset: 1, Op: push.Clear}})),
			"0b2209080722053001c03e01",
		},
		{"bare disconnect", protobuf.AppendPush(nil, &protocol.Push{
			Kind: protocol.PushDisconnect, Disconnect: push.Disconnect{Code: 3001, Reason: "r"},
		}, protobuf.PushOptions{Bare: true}), "0a5a0808b9171201721801"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(tt.got); got != tt.want {
				t.Errorf("encoded\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestDecodeCommandLenience(t *testing.T) {
	subscribeA := protocol.Command{ID: 1, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}}
	publishData := func(data string) protocol.Command {
		return protocol.Command{ID: 1, Kind: protocol.KindPublish, Publish: protocol.PublishRequest{Data: []byte(data)}}
	}
	for _, tt := range []struct {
		name    string
		message []byte
		want    protocol.Command
	}{
		{"ID last", build(5, build(1, "a"), 1, 1), subscribeA},
		{"unknown fields", build(99, 5, 1, 1, 5, build(100, "x", 1, "a", 4, 7), 3, "old", 536870911, 1), subscribeA},
		{"unknown fields of fixed size", append(build(1, 1, 5, build(1, "a")), 0x99, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0x9d, 1, 1, 2, 3, 4), subscribeA},
		{"another type on the wire", build(1, 1, 1, "one", 5, 3, 5, build(1, "a", 2, 7, 7, "x")), subscribeA},
		{"long varints", []byte{0x88, 0, 0x81, 0x80, 0, 0xaa, 0, 0x83, 0, 0x0a, 1, 'a'}, subscribeA},
		{"first request counts", build(1, 1, 5, build(1, "a"), 7, build(1, "b"), 4, build()), subscribeA},
		{"parts of a request are merged", build(5, build(1, "b"), 1, 2, 5, build(1, "a"), 1, 1), subscribeA},
		{"data with spaces", build(1, 1, 7, build(2, `{ "a" : 1 }`)), publishData(`{ "a" : 1 }`)},
		{"data on several lines", build(1, 1, 7, build(2, "{\"a\" :\n1\r\n}")), publishData(`{"a":1}`)},
		{"empty data is none", build(1, 1, 7, build(2, "1", 2, "")), protocol.Command{ID: 1, Kind: protocol.KindPublish}},
		{"no request", build(1, 1), protocol.Command{ID: 1, Kind: protocol.KindUnknown}},
		{"unknown request", build(1, 1, 16, build()), protocol.Command{ID: 1, Kind: protocol.KindUnknown}},
		{"entries with nothing", build(1, 1, 4, build(3, build(), 6, build())), protocol.Command{
			ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{
				Headers: map[string]string{"": ""}, Subs: map[string]protocol.SubscribeRequest{"": {}},
			},
		}},
		{"the last entry counts", build(1, 1, 4, build(3, build(1, "c", 2, build(1, "x", 3, 1)), 3, build(1, "c", 2, build(9, 5)))), protocol.Command{
			ID: 1, Kind: protocol.KindConnect, Connect: protocol.ConnectRequest{
				Subs: map[string]protocol.SubscribeRequest{"c": {Channel: "c", Positioned: true}},
			},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got protocol.Command
			if err := protobuf.DecodeCommand(tt.message, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

func TestDecodeCommandRefusesWhatCanBeAnswered(t *testing.T) {
	nested := func(n int) (filter []byte) {
		for range n - 1 {
			filter = build(6, filter)
		}
		return filter
	}
	for _, tt := range []struct {
		name    string
		message []byte
		reason  string
	}{
		{"string", build(1, 1, 7, build(1, "a\xff")), "publish.channel: expected UTF-8 at byte 6"},
		{"ID behind it", build(7, build(1, "\xff"), 1, 1), "publish.channel: expected UTF-8 at byte 4"},
		{"the first counts", build(1, 1, 7, build(1, "\xff", 4, "\xff")), "publish.channel: expected UTF-8 at byte 6"},
		{"a request that does not count", build(1, 1, 11, build(), 7, build(1, "\xff")), "publish.channel: expected UTF-8 at byte 8"},
		{"tag", build(1, 1, 7, build(1000, build(1, "\xff"))), "publish.tags: expected UTF-8 at byte 9"},
		{"data", build(1, 1, 7, build(2, "nul")), "publish.data: expected one JSON value: unexpected 'n', expected a value at byte 6"},
		{"two values", build(1, 1, 9+4, build(1, "1 2")), "rpc.data: expected one JSON value: unexpected '2', expected the end at byte 8"},
		{"data of connect", build(1, 1, 4, build(2, "}")), "connect.data: expected one JSON value: unexpected '}', expected a value at byte 6"},
		{"data of subscribe", build(1, 1, 5, build(8, "}")), "subscribe.data: expected one JSON value: unexpected '}', expected a value at byte 6"},
		{"data of send", build(1, 1, 12, build(1, "}")), "send.data: expected one JSON value: unexpected '}', expected a value at byte 6"},
		{"data too deep", build(1, 1, 7, build(2, strings.Repeat("[", 129)+strings.Repeat("]", 129))), "publish.data: expected one JSON value: a value is nested deeper than 128 levels at byte 136"},
		{"offset too large", build(1, 1, 5, build(7, uint64(1<<53))), "subscribe.offset: expected an integer between 0 and 9007199254740991 at byte 5"},
		{"flag negative", build(1, 1, 5, build(14, -1)), "subscribe.flag: expected an integer between 0 and 9007199254740991 at byte 5"},
		{"server-side", build(1, 1, 4, build(3, build(2, build(7, -1)))), "connect.subs.offset: expected an integer between 0 and 9007199254740991 at byte 9"},
		{"after server-side", build(1, 1, 4, build(3, build(2, build()), 7, -1)), "connect.flag: expected an integer between 0 and 9007199254740991 at byte 9"},
		{"since", build(1, 1, 10, build(8, build(1, -1))), "history.since.offset: expected an integer between 0 and 9007199254740991 at byte 7"},
		{"limit", build(1, 1, 10, build(7, uint64(1<<31))), "history.limit: expected an integer of 32 bits at byte 5"},
		{"type", build(1, 1, 5, build(15, uint64(1<<31))), "subscribe.type: expected an integer between 0 and 2147483647 at byte 5"},
		{"phase", build(1, 1, 5, build(16, -1)), "subscribe.phase: expected an integer between 0 and 2147483647 at byte 6"},
		{"filter", build(1, 1, 5, build(13, build(5, "\xff"))), "subscribe.tf: expected UTF-8 at byte 8"},
		{"two filters", build(1, 1, 5, build(13, build(), 13, build())), "subscribe.tf: expected only one filter at byte 7"},
		{"filter too deep", build(1, 1, 5, build(13, nested(65))), "subscribe.tf: expected at most 64 levels at byte 135"},
		{"the last ID counts", build(1, -1, 11, build(), 1, 1), "id: expected an integer between 0 and 4294967295 at byte 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c protocol.Command
			err := protobuf.DecodeCommand(tt.message, &c)
			refusal := new(push.Error)
			if !errors.As(err, &refusal) || !errors.Is(err, push.ErrBadRequest) {
				t.Fatalf("error is %v, want a bad request", err)
			}
			if c.ID != 1 {
				t.Errorf("ID is %d, want 1", c.ID)
			}
			if refusal.Message != tt.reason {
				t.Errorf("message is %q, want %q", refusal.Message, tt.reason)
			}
		})
	}
	if err := protobuf.DecodeCommand(build(1, 1, 5, build(13, nested(64))), &protocol.Command{}); err != nil {
		t.Errorf("a filter of 64 levels: %v", err)
	}
}

func TestDecodeCommandRefusesBrokenMessages(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message []byte
		reason  string
		offset  int
	}{
		{"ends in a tag", []byte{8, 1, 0x80}, "the message ends inside of an integer", 3},
		{"ends before a value", []byte{8}, "the message ends inside of a field", 1},
		{"ends in an integer", []byte{8, 0xff}, "the message ends inside of an integer", 2},
		{"long integer", []byte{8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, "an integer does not fit into 64 bits", 1},
		{"ends in a request", []byte{8, 1, 0x3a, 3, 0x0a, 1}, "the length of a value is beyond the end of the message", 3},
		{"a value beyond its request", []byte{8, 1, 0x3a, 2, 0x0a, 1, 'a'}, "the length of a value is beyond the end of the message", 5},
		{"ends in 4 bytes", []byte{0x9d, 1, 1, 2, 3}, "the message ends inside of a field", 2},
		{"ends in 8 bytes", []byte{0x99, 1, 1, 2, 3, 4, 5, 6, 7}, "the message ends inside of a field", 2},
		{"field 0", []byte{8, 1, 2, 0}, "a field has the number 0", 2},
		{"field of 30 bits", protowire.AppendVarint(nil, 1<<32), "a field has the number 536870912", 0},
		{"group", []byte{8, 1, 0x9b, 1, 0x9c, 1}, "a group, which the protocol does not have", 2},
		{"end of a group", []byte{8, 1, 0x0c}, "a group, which the protocol does not have", 2},
		{"type", []byte{8, 1, 0x0e}, "a field has a value of an unknown type", 2},
		{"broken after a value", build(1, 1, 7, append(build(1, "\xff"), 8)), "the message ends inside of a field", 8},
		{"broken in a request that does not count", build(1, 1, 11, build(), 7, []byte{8}), "the message ends inside of a field", 7},
		{"ID too large", build(1, uint64(1<<32), 11, build()), "id: expected an integer between 0 and 4294967295", 1},
		{"a value without ID", build(12, build(1, "}")), "send.data: expected one JSON value: unexpected '}', expected a value", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := protobuf.DecodeCommand(tt.message, &protocol.Command{})
			broken := new(protobuf.SyntaxError)
			if !errors.As(err, &broken) {
				t.Fatalf("error is %v, want a SyntaxError", err)
			}
			if broken.Offset != tt.offset || broken.Reason != tt.reason {
				t.Errorf("%q at %d, want %q at %d", broken.Reason, broken.Offset, tt.reason, tt.offset)
			}
			if !strings.HasPrefix(err.Error(), "protobuf: ") {
				t.Errorf("%q does not say where it comes from", err)
			}
		})
	}
}

// Decoded bytes share the memory of the message, and cannot be appended to in place.
func TestDecodedBytesAreShared(t *testing.T) {
	message := build(1, 1, 7, build(2, `"x"`, 4, "k"))
	var c protocol.Command
	if err := protobuf.DecodeCommand(message, &c); err != nil {
		t.Fatal(err)
	}
	if data := c.Publish.Data; cap(data) != len(data) {
		t.Errorf("capacity is %d", cap(data))
	}
	for i := range message {
		message[i] = 'y'
	}
	if string(c.Publish.Data) != "yyy" || c.Publish.Key != "k" {
		t.Errorf("data %q, key %q", c.Publish.Data, c.Publish.Key)
	}
}

// A text that is no filter must not become the absence of a filter.
func TestAppendCommandWithoutFilter(t *testing.T) {
	c := protocol.Command{ID: 1, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Filter: []byte("[1]\xff")}}
	want := &clientv1.Command{Id: 1, Subscribe: &clientv1.SubscribeRequest{Tf: &clientv1.FilterNode{Op: "[1]\ufffd"}}}
	if frame := protobuf.AppendCommand(nil, &c); string(frame) != string(marshal(t, want)) {
		t.Errorf("encoded %x", frame)
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name, frame string
		want        []string
		reason      string
	}{
		{"empty", "", nil, ""},
		{"ping", "\x00", []string{""}, ""},
		{"several", "\x02ab\x00\x81\x00c", []string{"ab", "", "c"}, ""},
		{"beyond the end", "\x01a\x02b", []string{"a"}, "the length of a message is beyond the end of the frame at byte 0"},
		{"far beyond the end", strings.Repeat("\xff", 9) + "\x01", nil, "the length of a message is beyond the end of the frame at byte 0"},
		{"length without end", "\x80\x80", nil, "the length of a message does not end at byte 2"},
		{"length of 65 bits", strings.Repeat("\xff", 9) + "\x02", nil, "the length of a message does not fit into 64 bits at byte 0"},
		{"length of 11 bytes", strings.Repeat("\x80", 10) + "\x00", nil, "the length of a message does not fit into 64 bits at byte 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			message, rest, err := protobuf.Next([]byte(tt.frame))
			for ; message != nil; message, rest, err = protobuf.Next(rest) {
				got = append(got, string(message))
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("messages %q, want %q", got, tt.want)
			}
			if (err == nil) != (tt.reason == "") || err != nil && err.Error() != tt.reason {
				t.Errorf("error is %v, want %q", err, tt.reason)
			}
		})
	}
}
