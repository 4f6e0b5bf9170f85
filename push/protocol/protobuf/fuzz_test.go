package protobuf_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"google.golang.org/protobuf/proto"
)

// FuzzNext checks that frames fall into the messages that they are made of, and that nothing else does.
func FuzzNext(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 8, 0})
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02})
	f.Fuzz(func(t *testing.T, data []byte) {
		total := 0
		for rest := data; ; {
			message, next, err := protobuf.Next(rest)
			if err != nil {
				if broken := new(protobuf.SyntaxError); !errors.As(err, &broken) || broken.Offset > len(rest) || message != nil {
					t.Fatalf("message %x, error %#v", message, err)
				}
				return
			}
			if message == nil {
				break
			}
			if len(next) >= len(rest) || cap(message) != len(message) {
				t.Fatalf("a message of %d bytes, capacity %d, and %d of %d bytes are left", len(message), cap(message), len(next), len(rest))
			}
			total += len(rest) - len(next)
			rest = next
		}
		if total != len(data) {
			t.Errorf("%d of %d bytes are in messages", total, len(data))
		}
	})
}

// FuzzDecodeCommand compares DecodeCommand with generated code and the rules of the package comment.
func FuzzDecodeCommand(f *testing.F) {
	for _, c := range commands {
		message, _, _ := protobuf.Next(protobuf.AppendCommand(nil, &c))
		f.Add(message)
	}
	f.Add([]byte{8, 1, 0x2a, 4, 0x6a, 2, 0x32, 0, 0x2a, 4, 0x6a, 2, 0x32, 0})
	f.Add([]byte("*\n0\xff\xff\xff\xff\xff\xff\xff\xff0")) // subscribe, with a large integer where the epoch, a string, belongs
	f.Fuzz(func(t *testing.T, message []byte) {
		w := walk{requests: true}
		broken := w.message(message, (*clientv1.Command)(nil).ProtoReflect().Descriptor(), &merged{}, 0)
		var want clientv1.Command
		refusedByGenerated := proto.Unmarshal(message, &want)
		before := bytes.Clone(message)
		var got protocol.Command
		err := protobuf.DecodeCommand(message, &got)
		if !bytes.Equal(message, before) {
			t.Fatal("the message was changed")
		}
		if accepted := refusedByGenerated == nil && broken == nil && !w.ill; accepted != (err == nil) {
			t.Fatalf("error is %v; generated code: %v, walk: %v, %+v", err, refusedByGenerated, broken, w)
		}
		if err != nil {
			refusal := new(push.Error)
			if answerable := broken == nil && w.id != 0; errors.As(err, &refusal) != answerable {
				t.Fatalf("error is %v; walk: %v, %+v", err, broken, w)
			}
			return
		}
		settleCommand(&want, w.first)
		if generated := generatedCommand(t, &got); !proto.Equal(generated, &want) {
			t.Fatalf("decoded %v, want %v", generated, &want)
		}
		if unknown := w.first == 0 && len(message) > 0; (got.Kind == protocol.KindUnknown) != unknown || got.IsPong() != (len(message) == 0) {
			t.Errorf("kind is %v of %x", got.Kind, message)
		}
	})
}

// FuzzDecodeReply compares DecodeReply with generated code and the rules of the package comment.
func FuzzDecodeReply(f *testing.F) {
	for _, r := range replies {
		message, _, _ := protobuf.Next(protobuf.AppendReply(nil, &r))
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var w walk
		broken := w.message(message, (*clientv1.Reply)(nil).ProtoReflect().Descriptor(), &merged{}, 0)
		var want clientv1.Reply
		refusedByGenerated := proto.Unmarshal(message, &want)
		var got protocol.Reply
		err := protobuf.DecodeReply(message, &got)
		if accepted := refusedByGenerated == nil && broken == nil && !w.ill; accepted != (err == nil) {
			t.Fatalf("error is %v; generated code: %v, walk: %v, %+v", err, refusedByGenerated, broken, w)
		}
		if err != nil {
			return
		}
		settleReply(&want, w.first, w.pushed)
		if generated := generatedReply(&got); !proto.Equal(generated, &want) {
			t.Fatalf("decoded %v, want %v", generated, &want)
		}
	})
}

// FuzzDecodePush compares DecodePush with generated code and the rules of the package comment.
func FuzzDecodePush(f *testing.F) {
	for _, r := range replies {
		if r.Kind == protocol.KindPush {
			message, _, _ := protobuf.Next(protobuf.AppendPush(nil, &r.Push, protobuf.PushOptions{Bare: true}))
			f.Add(message)
		}
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var w walk
		broken := w.message(message, (*clientv1.Push)(nil).ProtoReflect().Descriptor(), &merged{}, 0)
		var want clientv1.Push
		refusedByGenerated := proto.Unmarshal(message, &want)
		var got protocol.Push
		err := protobuf.DecodePush(message, &got)
		if accepted := refusedByGenerated == nil && broken == nil && !w.ill; accepted != (err == nil) {
			t.Fatalf("error is %v; generated code: %v, walk: %v, %+v", err, refusedByGenerated, broken, w)
		}
		if err != nil {
			return
		}
		settlePush(&want, w.pushed)
		if generated := generatedPush(&got); !proto.Equal(generated, &want) {
			t.Fatalf("decoded %v, want %v", generated, &want)
		}
	})
}

// FuzzAppendCommand checks that commands, whatever their values, are the same in generated code and after decoding.
func FuzzAppendCommand(f *testing.F) {
	for _, c := range commands {
		message, _, _ := protobuf.Next(protobuf.AppendCommand(nil, &c))
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var c, again protocol.Command
		if protobuf.DecodeCommand(message, &c) != nil {
			return
		}
		checkAppended(t, protobuf.AppendCommand([]byte("before"), &c), generatedCommand(t, &c), &clientv1.Command{})
		appended, _, _ := protobuf.Next(protobuf.AppendCommand(nil, &c))
		if err := protobuf.DecodeCommand(appended, &again); err != nil {
			t.Fatal(err)
		}
		if c.ID == 0 && c.Kind == protocol.KindUnknown { // of which nothing is left
			again.Kind = protocol.KindUnknown
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("decoded\n%+v, and once more\n%+v", c, again)
		}
	})
}

// FuzzAppendReply checks that replies and pushes, whatever their values, are the same in generated code.
func FuzzAppendReply(f *testing.F) {
	for _, r := range replies {
		message, _, _ := protobuf.Next(protobuf.AppendReply(nil, &r))
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		var r protocol.Reply
		if protobuf.DecodeReply(message, &r) != nil {
			return
		}
		checkAppended(t, protobuf.AppendReply([]byte("before"), &r), generatedReply(&r), &clientv1.Reply{})
		if r.Kind != protocol.KindPush {
			return
		}
		bare := protobuf.PushOptions{Bare: true}
		checkAppended(t, protobuf.AppendPush([]byte("before"), &r.Push, bare), generatedPush(&r.Push), &clientv1.Push{})
		if p := &r.Push; p.Kind == protocol.PushPublication && p.Channel == "" {
			bare.ID = p.ID
			checkAppended(t, protobuf.AppendPublicationPush([]byte("before"), "", &p.Publication, bare), generatedPush(p), &clientv1.Push{})
		}
	})
}

// checkAppended reports if what was appended after "before" is not what generated code has for want.
func checkAppended(t *testing.T, dst []byte, want, decoded proto.Message) {
	t.Helper()
	frame, ok := bytes.CutPrefix(dst, []byte("before"))
	if !ok {
		t.Fatalf("appended to something else: %x", dst)
	}
	message, rest, err := protobuf.Next(frame)
	if err != nil || len(rest) > 0 {
		t.Fatalf("error %v, %d bytes are left", err, len(rest))
	}
	if err := proto.Unmarshal(message, decoded); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(decoded, want) {
		t.Fatalf("generated code decodes %v, want %v", decoded, want)
	}
	if size := proto.Size(want); size != len(message) {
		t.Fatalf("%d bytes, and generated code has %d", len(message), size)
	}
}

// FuzzDecodeBatch compares the decoders of batches with generated code.
func FuzzDecodeBatch(f *testing.F) {
	f.Add([]byte{10, 1, 's', 18, 1, 'n', 26, 0, 26, 2, 8, 1})
	f.Fuzz(func(t *testing.T, message []byte) {
		var emulation clientv1.EmulationRequest
		refused := proto.Unmarshal(message, &emulation)
		got, err := protobuf.DecodeEmulation(message)
		if refused != nil && err == nil {
			t.Fatalf("accepted, and generated code says %v", refused)
		}
		want := protocol.Batch{Session: emulation.Session, Node: emulation.Node, Commands: emulation.Data}
		if len(want.Commands) == 0 {
			want.Commands = nil
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("emulation: %+v, want %+v", got, want)
		}
		if got, err = protobuf.DecodeSend(message); err != nil {
			return
		}
		var send clientv1.SendCommandsRequest
		if proto.Unmarshal(message, &send) != nil {
			return // a command is malformed, which is found when it is decoded
		}
		want = protocol.Batch{Session: send.Session, Node: send.Node, Commands: got.Commands}
		n := 0
		for m, rest, _ := protobuf.Next(got.Commands); m != nil; m, rest, _ = protobuf.Next(rest) {
			var c clientv1.Command
			if err := proto.Unmarshal(m, &c); err != nil || !proto.Equal(&c, send.Commands[n]) {
				t.Fatalf("command %d is %v, want %v, error %v", n, &c, send.Commands[n], err)
			}
			n++
		}
		if !reflect.DeepEqual(got, want) || n != len(send.Commands) {
			t.Fatalf("send: %+v of %d commands, want %+v of %d", got, n, want, len(send.Commands))
		}
	})
}
