package wire

import (
	"crypto/rand"
	"encoding/binary"
	"math"
)

// AppendEncode appends msg as one frame of the kind in Options.Opcode, or in Response.Opcode if that was changed, as AppendMessage does.
func (c *Codec) AppendEncode(dst, msg []byte) ([]byte, error) {
	return c.AppendMessage(dst, c.opcode, msg)
}

// AppendMessage appends msg as one frame of the given kind, OpText or OpBinary. The frame is compressed if the handshake agreed on that and the
// message is large enough (see [Compression]), and masked on the client's side. AppendMessage copies msg. The caller guarantees that text is
// UTF-8. The error is [ErrNotOpen] or [ErrCloseSent]; then dst is returned unchanged.
func (c *Codec) AppendMessage(dst []byte, op Opcode, msg []byte) ([]byte, error) {
	if err := c.Sendable(); err != nil {
		return dst, err
	}
	if c.Compresses(len(msg)) {
		return c.appendDeflated(dst, op, msg), nil
	}
	return c.appendFrame(dst, finBit|byte(op), msg), nil
}

// AppendMessageHeader appends the bytes that AppendMessage would append before msg, for a caller that sends a message from its own memory. The
// frame must be the header followed by the unchanged message, so call it only on the server's side, and only if [Codec.Compresses] reports
// false. The errors are those of AppendMessage.
func (c *Codec) AppendMessageHeader(dst []byte, op Opcode, n int) ([]byte, error) {
	if err := c.Sendable(); err != nil {
		return dst, err
	}
	return AppendHeader(dst, op, n), nil
}

// AppendControl appends a ping or a pong with a payload of at most 125 bytes. A larger payload panics. The errors are those of AppendMessage.
func (c *Codec) AppendControl(dst []byte, op Opcode, payload []byte) ([]byte, error) {
	if err := c.Sendable(); err != nil {
		return dst, err
	}
	AppendHeader(nil, op, len(payload)) // panics if the payload is too large
	return c.appendFrame(dst, finBit|byte(op), payload), nil
}

// AppendClose appends a close frame, as the function [AppendClose] does, if this connection has made none yet. Otherwise, and before the
// handshake is complete, it returns dst unchanged. After the close frame AppendEncode refuses. Decode returns the peer's answer as a
// *[CloseError], which is not answered again.
func (c *Codec) AppendClose(dst []byte, code uint16, reason string) []byte {
	if !c.state.CompareAndSwap(stateOpen, stateClosed) {
		return dst
	}
	return c.appendClose(dst, code, reason)
}

// appendClose is the function AppendClose, with masking on the client's side.
func (c *Codec) appendClose(dst []byte, code uint16, reason string) []byte {
	if !c.client {
		return AppendClose(dst, code, reason)
	}
	var frame [2 + maxControl]byte
	return c.appendFrame(dst, finBit|byte(OpClose), AppendClose(frame[:0], code, reason)[2:])
}

// Sendable returns the error that AppendMessage would return now: [ErrNotOpen], [ErrCloseSent], or nil.
func (c *Codec) Sendable() error {
	switch c.state.Load() {
	case stateOpen:
		return nil
	case stateHandshake:
		return ErrNotOpen
	}
	return ErrCloseSent
}

// appendFrame appends a frame with the given first byte.
func (c *Codec) appendFrame(dst []byte, first byte, payload []byte) []byte {
	dst = c.appendHeader(dst, first, len(payload))
	start := len(dst)
	dst = append(dst, payload...)
	if c.client {
		maskFrom(dst, start)
	}
	return dst
}

// appendHeader appends the header of a frame; the caller appends its n bytes of payload next. On the client's side maskFrom completes the
// header.
func (c *Codec) appendHeader(dst []byte, first byte, n int) []byte {
	var mask byte
	if c.client {
		mask = maskBit
	}
	switch {
	case n < length16:
		dst = append(dst, first, mask|byte(n))
	case n <= math.MaxUint16:
		dst = append(dst, first, mask|length16, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, first, mask|length64), uint64(n))
	}
	if c.client {
		dst = append(dst, 0, 0, 0, 0)
	}
	return dst
}

// maskFrom masks the payload at the end of a client's frame with an unpredictable key (RFC 6455 §5.3, §10.3), and writes the key before it.
func maskFrom(frame []byte, start int) {
	key := frame[start-maskLen : start]
	_, _ = rand.Read(key) // never fails, see crypto/rand
	unmask(frame[start:], binary.LittleEndian.Uint32(key))
}
