package connect

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// message is what calls receive and send: a message as bytes of Protobuf, whatever it was on the wire.
type message struct{ data []byte }

// The messages of requests. The types say what JSON is converted to.
type (
	command     struct{ message }
	commands    struct{ message }
	oneWayStart struct{ message }
	nothing     struct{}
)

// converted is a message that can be converted from JSON.
type converted interface {
	set(data []byte)
	generated() proto.Message
}

func (m *message) set(data []byte) { m.data = data }

func (*command) generated() proto.Message { return new(clientv1.Command) }

func (*commands) generated() proto.Message { return new(clientv1.SendCommandsRequest) }

func (*oneWayStart) generated() proto.Message { return new(clientv1.ConnectRequest) } // has more fields than that of the one-way service

// binaryCodec passes messages as they are. Messages of connect-go itself are encoded as Protobuf.
type binaryCodec struct{}

// Name implements connect.Codec.
func (binaryCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (binaryCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case *nothing:
		return nil, nil
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("connect: cannot encode %T", v)
}

// Unmarshal implements connect.Codec.
func (binaryCodec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case converted:
		m.set(bytes.Clone(data))
		return nil
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("connect: cannot decode %T", v)
}

// jsonCodec converts messages in JSON.
type jsonCodec struct{ name string }

// Name implements connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case *nothing:
		return []byte("{}"), nil
	case proto.Message:
		return protojson.Marshal(m)
	}
	return nil, fmt.Errorf("connect: cannot encode %T", v)
}

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	m, ok := v.(converted)
	if !ok {
		return fmt.Errorf("connect: cannot decode %T", v)
	}
	generated := m.generated()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, generated); err != nil {
		return err
	}
	binary, err := proto.Marshal(generated)
	m.set(binary)
	return err
}
