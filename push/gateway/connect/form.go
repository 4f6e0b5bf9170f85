package connect

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/compression"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// envelope is the framing of gRPC, gRPC-Web and Connect: a byte of flags, and the length in four bytes. Each frame has one message, which the form
// has written with its length before it.
type envelope struct {
	compresses bool // messages that become smaller are compressed by gzip
}

// compressedFlag in the flags of an envelope says that its message is compressed.
const compressedFlag = 1

// envelopeBytes is the length of what comes before a message.
const envelopeBytes = 5

// FrameBytes implements gateway.Framing.
func (envelope) FrameBytes() int { return 0 }

// Begin implements gateway.Framing.
func (envelope) Begin(dst []byte) []byte { return append(dst, make([]byte, envelopeBytes)...) }

// Finish implements gateway.Framing. The envelope overwrites the length.
func (e envelope) Finish(dst []byte, start int) []byte {
	_, n := protowire.ConsumeVarint(dst[start+envelopeBytes:])
	isCompressed := false
	if e.compresses {
		dst, isCompressed = compression.Shrink(dst, start+n+envelopeBytes, compression.AppendGzip)
	}
	frame := dst[start+n:]
	frame[0] = 0
	if isCompressed {
		frame[0] = compressedFlag
	}
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-envelopeBytes)) //nolint:gosec // a message is shorter
	if start == 0 {
		return frame
	}
	return append(dst[:start], frame...)
}

// jsonForm is the form of clients that speak JSON. Their commands arrive as Protobuf, by the codec; replies and pushes are converted.
type jsonForm struct{ gateway.Protobuf }

// AppendReply implements gateway.Form.
func (f jsonForm) AppendReply(dst []byte, r *protocol.Reply) []byte {
	return f.appendJSON(dst, f.Protobuf.AppendReply(nil, r), new(clientv1.Reply))
}

// AppendPush implements gateway.Form.
func (f jsonForm) AppendPush(dst []byte, p *protocol.Push) []byte {
	return f.appendJSON(dst, f.Protobuf.AppendPush(nil, p), f.pushed())
}

// AppendPublications implements gateway.Form.
func (f jsonForm) AppendPublications(dst []byte, to hub.Address, deliveries []channel.Delivery) []byte {
	return f.appendJSON(dst, f.Protobuf.AppendPublications(nil, to, deliveries), f.pushed())
}

// pushed returns the message that has a push. That of the one-way service lacks the fields of rows, so it is that of the client protocol, whose
// other fields have the same names.
func (f jsonForm) pushed() proto.Message {
	if f.Bare {
		return new(clientv1.Push)
	}
	return new(clientv1.Reply)
}

// appendJSON appends messages in JSON, with their lengths before them as the Protobuf form has them.
func (jsonForm) appendJSON(dst, frame []byte, m proto.Message) []byte {
	for message, rest, err := protobuf.Next(frame); message != nil && err == nil; message, rest, err = protobuf.Next(rest) {
		text := []byte("{}")
		if proto.Unmarshal(message, m) == nil { // which our own encoder has written
			text, _ = protojson.Marshal(m) // fails for text that is no UTF-8 only, and then it is empty
		}
		dst = protowire.AppendBytes(dst, text)
	}
	return dst
}
