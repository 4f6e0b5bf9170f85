package rawstream

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// keptFrame is the largest buffer that a Message keeps for the next one.
const keptFrame = 16 << 10

// Codec passes the messages of this package as bytes. Messages of other types are encoded as Protobuf.
type Codec struct{ proto encoding.CodecV2 }

// NewCodec returns the codec, for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case Empty:
		return nil, nil
	case *outgoing:
		if m.buffer == nil {
			return nil, nil
		}
		return mem.BufferSlice{m.buffer}, nil
	}
	return c.proto.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	if cap(m.Frame) > keptFrame {
		m.Frame = nil
	}
	n := data.Len()
	m.Frame = protowire.AppendVarint(m.Frame[:0], uint64(n)) //nolint:gosec // a length
	start := len(m.Frame)
	m.Frame = append(m.Frame, make([]byte, n)...)
	if copied := data.CopyTo(m.Frame[start:]); copied != n {
		return fmt.Errorf("rawstream: %d bytes of a message of %d", copied, n)
	}
	return nil
}

// outgoing is a message that is sent. The buffer becomes grpc-go's; nil is a message without content.
type outgoing struct{ buffer mem.Buffer }

// Empty is an answer without content.
type Empty struct{}

// Message is a message that is received.
type Message struct {
	// Frame is the message with its length before it. The next call of RecvMsg overwrites its memory.
	Frame []byte
}

// Body returns the message without its length. It shares the memory of Frame.
func (m *Message) Body() []byte {
	_, n := protowire.ConsumeVarint(m.Frame)
	return m.Frame[n:]
}
