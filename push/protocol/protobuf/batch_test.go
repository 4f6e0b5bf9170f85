package protobuf_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

func TestBatch(t *testing.T) {
	request := &clientv1.SendCommandsRequest{Session: "s", Node: "n"}
	var frame []byte
	for _, c := range commands {
		request.Commands = append(request.Commands, generatedCommand(t, &c))
		frame = protobuf.AppendCommand(frame, &c)
	}
	want := protocol.Batch{Session: "s", Node: "n", Commands: frame}
	got, err := protobuf.DecodeSend(only(t, marshal(t, request)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("send: %+v, want %+v, error %v", got, want, err)
	}
	body := only(t, marshal(t, &clientv1.EmulationRequest{Node: "n", Session: "s", Data: frame}))
	if got, err = protobuf.DecodeEmulation(body); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("emulation: %+v, want %+v, error %v", got, want, err)
	}
	n := 0
	message, rest, err := protobuf.Next(got.Commands)
	for ; message != nil; message, rest, err = protobuf.Next(rest) {
		if err := protobuf.DecodeCommand(message, &protocol.Command{}); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != len(commands) || err != nil {
		t.Errorf("%d commands, want %d, error %v", n, len(commands), err)
	}
}

// The commands of a batch share no memory with the message, which may be much larger: they may wait for long.
func TestBatchIsCopied(t *testing.T) {
	const most = 100
	rest := strings.Repeat("x", 1<<20)
	for name, decoded := range map[string]struct {
		decode  func([]byte) (protocol.Batch, error)
		message []byte
	}{
		"send":      {protobuf.DecodeSend, only(t, marshal(t, &clientv1.SendCommandsRequest{Node: rest, Commands: []*clientv1.Command{{Id: 1}, {Id: 2}}}))},
		"emulation": {protobuf.DecodeEmulation, only(t, marshal(t, &clientv1.EmulationRequest{Node: rest, Data: []byte("commands")}))},
	} {
		b, err := decoded.decode(decoded.message)
		before := string(b.Commands)
		clear(decoded.message)
		if err != nil || len(b.Commands) == 0 || string(b.Commands) != before || cap(b.Commands) > most {
			t.Errorf("%s: %q became %q with room for %d bytes, %v", name, before, b.Commands, cap(b.Commands), err)
		}
	}
}

func TestBatchRefuses(t *testing.T) {
	for name, message := range map[string][]byte{
		"ends": {10, 1}, "group": {0x0b}, "no UTF-8": build(1, "\xff"), "neither": build(2, "\xff"), "commands": {0x1a, 2, 0},
	} {
		for form, decode := range map[string]func([]byte) (protocol.Batch, error){
			"send": protobuf.DecodeSend, "emulation": protobuf.DecodeEmulation,
		} {
			_, err := decode(message)
			if broken := new(protobuf.SyntaxError); !errors.As(err, &broken) {
				t.Errorf("%s, %s: error is %v", form, name, err)
			}
		}
	}
}
