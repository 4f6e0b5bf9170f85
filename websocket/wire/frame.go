package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Opcode is the kind of a frame (RFC 6455 §5.2).
type Opcode byte

// The opcodes. All others are reserved.
const (
	OpContinuation Opcode = 0x0
	OpText         Opcode = 0x1
	OpBinary       Opcode = 0x2
	OpClose        Opcode = 0x8
	OpPing         Opcode = 0x9
	OpPong         Opcode = 0xA
)

// String returns the name of the opcode in lower case.
func (op Opcode) String() string {
	switch op {
	case OpContinuation:
		return "continuation"
	case OpText:
		return "text"
	case OpBinary:
		return "binary"
	case OpClose:
		return "close"
	case OpPing:
		return "ping"
	case OpPong:
		return "pong"
	}
	return fmt.Sprintf("opcode(%#x)", byte(op))
}

// control reports whether frames of this opcode may come between the fragments of a message (RFC 6455 §5.5).
func (op Opcode) control() bool { return op&0x8 != 0 }

// known reports whether the opcode is defined.
func (op Opcode) known() bool { return op <= OpBinary || op >= OpClose && op <= OpPong }

// The bits of a frame header (RFC 6455 §5.2).
const (
	finBit     = 0x80 // first byte: the last fragment of its message
	rsvBits    = 0x70 // first byte: reserved for extensions
	rsv1Bit    = 0x40 // first byte: the message is compressed (RFC 7692 §6)
	opcodeBits = 0x0F // first byte
	maskBit    = 0x80 // second byte: the payload is masked, the key follows the length
	lengthBits = 0x7F // second byte

	length16 = 126 // the length is in the next 2 bytes
	length64 = 127 // the length is in the next 8 bytes

	maxControl = 125 // bytes of payload of a control frame (RFC 6455 §5.5)
	maskLen    = 4
	maxHeader  = 2 + 8 + maskLen
)

// HeaderSpace is the size in bytes of the longest header of an unmasked frame. [FrameInPlace] needs that many free bytes before the payload.
const HeaderSpace = 10

// AppendHeader appends the header of an unfragmented, unmasked frame. The caller appends the n bytes of payload next. It panics if n is
// negative, or above 125 for a control frame.
func AppendHeader(dst []byte, op Opcode, n int) []byte {
	if n < 0 || op.control() && n > maxControl {
		panic(fmt.Sprintf("websocket: %v frame with a payload of %d bytes", op, n))
	}
	first := finBit | byte(op)
	switch {
	case n < length16:
		return append(dst, first, byte(n))
	case n <= math.MaxUint16:
		return append(dst, first, length16, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, first, length64), uint64(n))
}

// AppendFrame appends a whole unfragmented, unmasked frame, as a server sends it for one message. The result depends only on the arguments, so
// one frame can be written to any number of connections. The caller guarantees that the payload of OpText is UTF-8. AppendFrame panics if the
// payload of a control frame is above 125 bytes.
func AppendFrame(dst []byte, op Opcode, payload []byte) []byte {
	return append(AppendHeader(dst, op, len(payload)), payload...)
}

// AppendPing appends a ping frame; the peer answers with the same payload. It panics if the payload is above 125 bytes.
func AppendPing(dst, payload []byte) []byte { return AppendFrame(dst, OpPing, payload) }

// FrameInPlace makes a frame of a payload that starts behind [HeaderSpace] free bytes of buf, without moving it. It writes the header right
// before the payload and returns the frame, which is a part of buf. It panics if buf is shorter than HeaderSpace, or if the payload of a control
// frame is above 125 bytes.
func FrameInPlace(buf []byte, op Opcode) []byte {
	n := len(buf) - HeaderSpace
	start := HeaderSpace - headerLen(n)
	AppendHeader(buf[:start], op, n)
	return buf[start:]
}

// headerLen returns the length of the header that AppendHeader appends.
func headerLen(n int) int {
	switch {
	case n < length16:
		return 2
	case n <= math.MaxUint16:
		return 4
	}
	return HeaderSpace
}
