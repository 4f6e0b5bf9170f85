package protobuf_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"google.golang.org/protobuf/proto"
)

func TestReplyForms(t *testing.T) {
	for _, r := range replies {
		t.Run(r.Kind.String()+" "+r.Push.Kind.String(), func(t *testing.T) {
			frame := protobuf.AppendReply(nil, &r)
			if want := marshal(t, generatedReply(&r)); r.Push.Kind == protocol.PushConnect {
				checkAppended(t, append([]byte("before"), frame...), generatedReply(&r), &clientv1.Reply{}) // in another order
			} else if string(frame) != string(want) {
				t.Errorf("encoded\n%x, generated code has\n%x", frame, want)
			}
			got := protocol.Reply{ID: 99, RPC: protocol.RPCResult{Data: []byte("left over")}}
			if err := protobuf.DecodeReply(only(t, frame), &got); err != nil {
				t.Fatal(err)
			}
			want := r
			if want.ID != 0 && want.Kind == protocol.KindNone && want.Error == nil {
				want.Kind = protocol.KindUnknown // as in JSON
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func TestErrorReply(t *testing.T) {
	want := protobuf.AppendReply(nil, &protocol.Reply{ID: 300, Error: push.ErrTooManyRequests})
	if got := protobuf.AppendErrorReply(nil, 300, push.ErrTooManyRequests); string(got) != string(want) {
		t.Errorf("encoded %x, want %x", got, want)
	}
}

func TestPushForms(t *testing.T) {
	for _, r := range replies {
		if r.Kind != protocol.KindPush {
			continue
		}
		t.Run(r.Push.Kind.String(), func(t *testing.T) {
			if frame, want := protobuf.AppendPush(nil, &r.Push, protobuf.PushOptions{ID: 5}), protobuf.AppendReply(nil, &r); string(frame) != string(want) {
				t.Errorf("encoded\n%x, want\n%x", frame, want)
			}
			bare := only(t, protobuf.AppendPush(nil, &r.Push, protobuf.PushOptions{Bare: true}))
			var got protocol.Push
			if err := protobuf.DecodePush(bare, &got); err != nil || !reflect.DeepEqual(got, r.Push) {
				t.Errorf("decoded\n%+v, want\n%+v, error %v", got, r.Push, err)
			}
			if err := proto.Unmarshal(bare, &unistream.Push{}); err != nil {
				t.Errorf("the one-way service: %v", err)
			}
			if r.Push.Kind != protocol.PushPublication {
				return
			}
			for _, o := range []protobuf.PushOptions{{}, {Bare: true}, {ID: 300}, {Bare: true, ID: 300}} {
				p := protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: r.Push.Publication}
				frame := protobuf.AppendPublicationPush(nil, p.Channel, &p.Publication, o)
				if p.ID = o.ID; o.ID != 0 {
					p.Channel = ""
				}
				if want := protobuf.AppendPush(nil, &p, o); string(frame) != string(want) {
					t.Errorf("%+v: encoded\n%x, want\n%x", o, frame, want)
				}
			}
		})
	}
	if got := protobuf.AppendPush(nil, &protocol.Push{}, protobuf.PushOptions{Bare: true}); string(got) != "\x00" {
		t.Errorf("a bare ping is %x", got)
	}
}

// The length of a message takes one to three bytes, and more where sizes were guessed wrong: every size around the borders comes out right.
func TestLengths(t *testing.T) {
	for border, before := range map[int]int{128: 100, 16384: 100, 1 << 21: 30} {
		for size := border - before; size <= border; size++ {
			p := protocol.Push{Channel: "a", Kind: protocol.PushPublication, Publication: push.Publication{Data: make([]byte, size)}}
			want := marshal(t, &clientv1.Reply{Push: generatedPush(&p)})
			if got := protobuf.AppendPublicationPush(nil, "a", &p.Publication, protobuf.PushOptions{}); string(got) != string(want) {
				t.Fatalf("data of %d bytes: wrong push", size)
			}
			c := protocol.Command{Kind: protocol.KindSend, Send: protocol.SendRequest{Data: make([]byte, size)}}
			if got := protobuf.AppendCommand(nil, &c); string(got) != string(marshal(t, generatedCommand(t, &c))) {
				t.Fatalf("data of %d bytes: wrong command", size)
			}
			c = protocol.Command{Kind: protocol.KindPing, Publish: protocol.PublishRequest{Data: make([]byte, size)}}
			if got := protobuf.AppendCommand(nil, &c); string(got) != "\x02\x5a\x00" {
				t.Fatalf("data of %d bytes that is not used: %x", size, got)
			}
		}
	}
}

// Clients refuse a message with invalid UTF-8, so it is replaced.
func TestAppendInvalidUTF8(t *testing.T) {
	r := protocol.Reply{ID: 1, Error: &push.Error{Code: 1, Message: "a\xff\xfe"}}
	var got clientv1.Reply
	if err := proto.Unmarshal(only(t, protobuf.AppendReply(nil, &r)), &got); err != nil || got.Error.Message != "a\ufffd\ufffd" {
		t.Errorf("message %q, error %v", got.Error.Message, err)
	}
}

// Results without a field on the wire are left out.
func TestReplyOfNoKind(t *testing.T) {
	for _, kind := range []protocol.Kind{protocol.KindUnknown, protocol.KindSend, 77} {
		if got := protobuf.AppendReply(nil, &protocol.Reply{ID: 1, Kind: kind}); string(got) != "\x02\x08\x01" {
			t.Errorf("%v: %x", kind, got)
		}
		if got := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: kind}); kind != protocol.KindSend && string(got) != "\x02\x08\x01" {
			t.Errorf("command, %v: %x", kind, got)
		}
	}
	if got := protobuf.AppendPush(nil, &protocol.Push{Channel: "a", Kind: 77}, protobuf.PushOptions{Bare: true}); string(got) != "\x03\x12\x01a" {
		t.Errorf("push: %x", got)
	}
}

func TestDecodeReplyLenience(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message []byte
		want    protocol.Reply
	}{
		{"first result counts", build(1, 1, 13, build(1, "1"), 8, build()), protocol.Reply{ID: 1, Kind: protocol.KindRPC, RPC: protocol.RPCResult{Data: []byte("1")}}},
		{"unknown result", build(1, 1, 16, build()), protocol.Reply{ID: 1, Kind: protocol.KindUnknown}},
		{"error beside a result", build(1, 1, 8, build(), 2, build(1, 5)), protocol.Reply{ID: 1, Error: &push.Error{Code: 5}}},
		{"first content counts", build(4, build(8, build(1, "1"), 4, build(4, "2"))), pushReply(protocol.Push{Kind: protocol.PushMessage, Message: []byte("1")})},
		{"unknown content", build(4, build(2, "a", 13, build())), pushReply(protocol.Push{Channel: "a"})},
		{
			"parts of a publication", build(4, build(4, build(12, 1, 5, build(1, "u"))), 4, build(4, build(1000, 1, 5, build(2, "c")), 4, build(1000, 0))),
			pushReply(protocol.Push{Kind: protocol.PushPublication, Publication: push.Publication{Op: push.Remove, Info: &push.ClientInfo{User: "u", Client: "c"}}}),
		},
		{"the last client counts", build(9, build(1, build(1, "b"), 1, build(1, "a", 2, build(1, "u", 2, "x")), 1, build(1, "b", 2, build(1, "v")))), protocol.Reply{
			Kind: protocol.KindPresence, Presence: protocol.PresenceResult{Clients: []push.ClientInfo{{User: "u", Client: "a"}, {User: "v", Client: "b"}}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got protocol.Reply
			if err := protobuf.DecodeReply(tt.message, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

func TestDecodeReplyRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"broken", []byte{8}, "protobuf: decode reply: the message ends inside of a field at byte 1"},
		{"offset", build(4, build(4, build(6, -1))), "protobuf: decode reply: pub.offset: expected an integer between 0 and 9007199254740991 at byte 5"},
		{"close code", build(4, build(11, build(1, 1<<16))), "protobuf: decode reply: disconnect.code: expected an integer between 0 and 65535 at byte 5"},
		{"error", build(2, build(2, "\xff")), "protobuf: decode reply: error.message: expected UTF-8 at byte 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := protobuf.DecodeReply(tt.message, &protocol.Reply{})
			if broken := new(protobuf.SyntaxError); !errors.As(err, &broken) || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
	err := protobuf.DecodePush(build(1, -1), &protocol.Push{})
	if err == nil || !strings.Contains(err.Error(), "decode push: push.id: expected") {
		t.Errorf("error of a push is %v", err)
	}
}
