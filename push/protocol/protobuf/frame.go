package protobuf

import "math/bits"

// maxVarintLen is the length of the longest varint: 64 bits, 7 in a byte.
const maxVarintLen = 10

// Next returns the first message of a frame, without the length before it, and the rest of the frame. Both share the memory of frame. The message
// is nil if there is none left. An empty message, a ping or its answer, is not nil. Each message is one command or one reply:
//
//	for message, rest, err := Next(frame); message != nil; message, rest, err = Next(rest) { … }
//
// The error is a *[SyntaxError]: the frame does not begin with a length, or is shorter than that. The server has to end the connection then.
func Next(frame []byte) (message, rest []byte, err error) {
	if len(frame) == 0 {
		return nil, nil, nil
	}
	size, n := uvarint(frame)
	switch {
	case n == 0:
		return nil, nil, &SyntaxError{Offset: len(frame), Reason: "the length of a message does not end"}
	case n < 0:
		return nil, nil, &SyntaxError{Reason: "the length of a message does not fit into 64 bits"}
	case size > uint64(len(frame)-n):
		return nil, nil, &SyntaxError{Reason: "the length of a message is beyond the end of the frame"}
	}
	end := n + int(size)
	return frame[n:end:end], frame[end:], nil
}

// uvarint decodes the varint at the beginning of b and returns its length: 0 if b ends before it does, -1 if the value has more than 64 bits.
func uvarint(b []byte) (value uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	for i, c := range b {
		if i == maxVarintLen-1 && c > 1 {
			return 0, -1
		}
		value |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// uvarintLen returns the length of the varint of v.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }
