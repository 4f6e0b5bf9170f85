package delivery

import (
	"bytes"
	"encoding/binary"
)

// ProtobufScanner finds publications in the messages of a server without decoding the rest of the protocol. Nearly all messages are pushes with the
// same few fields, in the order of their numbers. Package protocol/protobuf decodes all other messages.
type ProtobufScanner struct {
	prefix []byte // of channel names
}

// NewProtobufScanner returns a scanner for channels that are named after a prefix and their number.
func NewProtobufScanner(prefix string) ProtobufScanner {
	return ProtobufScanner{prefix: []byte(prefix)}
}

// The fields of a push: number and type, as client.proto has them.
const (
	replyPush         = 4<<3 | 2
	pushChannel       = 2<<3 | 2
	pushPub           = 4<<3 | 2
	publicationData   = 4<<3 | 2
	publicationOffset = 6 << 3
)

// Push parses a message without its length, and reports whether it has the form of a push.
func (s *ProtobufScanner) Push(message []byte) (f Found, ok bool) {
	push, rest := leadingField(message, replyPush)
	if rest == nil || len(rest) > 0 {
		return f, false
	}
	name, rest := leadingField(push, pushChannel)
	pub, rest := leadingField(rest, pushPub)
	digits, ours := bytes.CutPrefix(name, s.prefix)
	n, more := leadingNumber(digits)
	if rest == nil || len(rest) > 0 || !ours || more == nil || len(more) > 0 || n >= MaxStreams {
		return f, false
	}
	f.Channel = uint32(n) //nolint:gosec // below MaxStreams
	f.Data, rest = leadingField(pub, publicationData)
	if len(rest) > 0 && rest[0] == publicationOffset {
		offset, width := binary.Uvarint(rest[1:])
		f.Offset = offset
		return f, width > 0 && 1+width == len(rest)
	}
	return f, rest != nil && len(rest) == 0
}

// leadingField returns the value of the first field of a message, and what follows it: nil if that is another field, or malformed.
func leadingField(in []byte, tag byte) (value, rest []byte) {
	if len(in) < 2 || in[0] != tag {
		return nil, nil
	}
	size, width := binary.Uvarint(in[1:])
	begin := 1 + width
	if width <= 0 || size > uint64(len(in)-begin) { //nolint:gosec // a varint is within in
		return nil, nil
	}
	end := begin + int(size) //nolint:gosec // at most len(in)
	return in[begin:end], in[end:]
}
