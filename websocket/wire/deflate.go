package wire

import (
	"errors"
	"math"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Compression configures the compression of messages, and the offer or answer in the handshake (permessage-deflate, RFC 7692). The zero value
// compresses each message on its own, which costs no memory for each connection.
type Compression struct {
	// Level is the effort of compression, from 1, fast, to 9, small. Zero: 1.
	Level int
	// Threshold is the size in bytes from which messages are compressed. Zero: 128. Negative: all are.
	Threshold int
	// Takeover makes this side keep its context from one message to the next, if the peer agrees. Similar messages become much smaller. It costs
	// some ten to a hundred kilobytes for each connection, depending on WindowBits, and each connection compresses a broadcast itself.
	Takeover bool
	// PeerTakeover allows the peer to keep its context. It costs up to 2^PeerWindowBits bytes for each connection, allocated as they fill.
	PeerTakeover bool
	// WindowBits sets how far back this side refers: 2^WindowBits bytes, from 8 to 15. The peer may ask for less. Zero: 15, or 12 with Takeover.
	WindowBits int
	// PeerWindowBits sets how far back the peer may refer, if it agrees. Zero: 15.
	PeerWindowBits int
	// ReceiveOnly makes this side inflate the peer's messages and compress none of its own.
	ReceiveOnly bool
	// NewDeflater returns a compressor for this side's messages, to replace the built-in one. It returns nil for a window size that it does not
	// support; the handshake then declines parameters that need that size. Nil: the built-in compressor, which supports all sizes.
	NewDeflater func(level, windowBits int) Deflater

	windows uint16 // the window sizes that this side supports, one bit for each
}

// Deflater compresses messages one after the other. One goroutine uses it at a time.
type Deflater interface {
	// Append appends msg as RFC 7692 §7.2.1 demands: DEFLATE blocks that end at a byte boundary with an empty block without compression, whose
	// last four bytes, 00 00 ff ff, are left out. It may refer to earlier messages since Reset.
	Append(dst, msg []byte) []byte
	// Reset forgets the earlier messages.
	Reset()
}

const (
	defaultThreshold    = 128
	defaultTakeoverBits = 12
)

// withDefaults returns a copy in which every default is replaced by its value.
func (c *Compression) withDefaults() *Compression {
	d := *c
	d.Level = min(max(d.Level, 1), 9)
	switch {
	case d.Threshold == 0:
		d.Threshold = defaultThreshold
	case d.Threshold < 0:
		d.Threshold = 0
	}
	if d.ReceiveOnly {
		d.Threshold, d.Takeover = math.MaxInt, false
	}
	bits := maxBits
	if d.Takeover {
		bits = defaultTakeoverBits
	}
	d.WindowBits = windowBits(d.WindowBits, bits)
	d.PeerWindowBits = windowBits(d.PeerWindowBits, maxBits)
	if d.NewDeflater == nil {
		d.NewDeflater = func(level, bits int) Deflater { return deflate.NewEncoder(level, bits) }
		d.windows = math.MaxUint16
		return &d
	}
	for bits := minBits; bits <= maxBits; bits++ {
		if d.ReceiveOnly || d.NewDeflater(d.Level, bits) != nil {
			d.windows |= 1 << bits
		}
	}
	return &d
}

func windowBits(n, byDefault int) int {
	if n == 0 {
		return byDefault
	}
	return min(max(n, minBits), maxBits)
}

// keeps reports whether this side supports a window of that size.
func (c *Compression) keeps(bits uint8) bool { return c.windows>>bits&1 == 1 }

// wireLimit returns the largest total payload of a message. A compressed payload may be a little larger than its message.
func (e *Endpoint) wireLimit(deflated bool) int {
	limit := e.o.MaxMessage
	if deflated && limit < maxLimit/2 {
		limit += limit/8 + 64
	}
	return limit
}

// newDeflater returns a new compressor for a supported window size.
func (e *Endpoint) newDeflater(bits uint8) Deflater {
	return e.o.Compression.NewDeflater(e.o.Compression.Level, int(bits))
}

// deflater returns a compressor without a context, from the pool or new.
func (e *Endpoint) deflater(bits uint8) Deflater {
	d, _ := e.encoders[bits].Get().(Deflater)
	if d == nil {
		return e.newDeflater(bits)
	}
	d.Reset()
	return d
}

// deflates reports whether the handshake agreed on compression.
func (c *Codec) deflates() bool { return c.agreed != nil && c.agreed.deflate != nil }

// Compresses reports whether AppendMessage compresses a message of n bytes. If a message does not become smaller and no context is kept,
// AppendMessage still sends it uncompressed.
func (c *Codec) Compresses(n int) bool {
	return c.state.Load() != stateHandshake && c.deflates() && n >= c.e.o.Compression.Threshold
}

// Variant returns a number for the form of the frame that a message of n bytes becomes. AppendMessage makes interchangeable frames for all
// connections with the same number, so that one frame can be written to all of them. The number is negative if each connection needs a frame of
// its own: on the client's side, with a context, and before the handshake is done.
func (c *Codec) Variant(n int) int {
	switch {
	case c.client || c.state.Load() == stateHandshake || c.deflates() && c.agreed.out != nil:
		return -1
	case c.Compresses(n):
		return int(c.agreed.deflate.bits)
	}
	return 0
}

// Variants is the number of results of Variant that are not negative; they start at 0.
const Variants = maxBits + 1

// appendDeflated appends a compressed message.
func (c *Codec) appendDeflated(dst []byte, op Opcode, msg []byte) []byte {
	a := c.agreed
	d, start := a.out, len(dst)
	if d == nil {
		d = c.e.deflater(a.deflate.bits)
		defer c.e.encoders[a.deflate.bits].Put(d)
	}
	first := finBit | rsv1Bit | byte(op)
	dst = c.appendHeader(dst, first, len(msg)) // has the final length in nearly all cases
	body := len(dst)
	dst = d.Append(dst, msg)
	n := len(dst) - body
	if a.out == nil && n >= len(msg) {
		return c.appendFrame(dst[:start], finBit|byte(op), msg)
	}
	return c.fitHeader(dst, start, body, first)
}

// fitHeader completes a frame whose header was written before the length of the payload was known. It moves the payload if the header's length
// changes, and masks it on the client's side.
func (c *Codec) fitHeader(dst []byte, start, body int, first byte) []byte {
	n := len(dst) - body
	var space [maxHeader]byte
	h := c.appendHeader(space[:0], first, n)
	if shift := start + len(h) - body; shift > 0 {
		dst = append(dst, space[:shift]...)
		copy(dst[body+shift:], dst[body:body+n])
	} else if shift < 0 {
		copy(dst[body+shift:], dst[body:])
		dst = dst[:len(dst)+shift]
	}
	copy(dst[start:], h)
	if c.client {
		maskFrom(dst, start+len(h))
	}
	return dst
}

var decoders = sync.Pool{New: func() any { return new(deflate.Decoder) }}

// inflate returns the message that the payload stands for, in memory that Release frees.
func (c *Codec) inflate(payload []byte) (msg []byte, bad *CloseError) {
	msg, bad = c.appendInflated(getBuffer(), payload, c.last)
	c.ensureWork().lent = msg
	if bad != nil {
		return nil, bad
	}
	return msg[:len(msg):len(msg)], nil
}

// AppendInflated appends the message that a compressed payload stands for: the joined pieces of [Options.Pieces] without their tags. Kind is the
// opcode in the tags. If the message is larger than Options.MaxMessage, corrupt, or text that is not UTF-8, the error is a *[CloseError] with
// which the connection should be closed. The goroutine that reads the messages calls it, in their order.
func (c *Codec) AppendInflated(dst, payload []byte, kind Opcode) ([]byte, error) {
	out, bad := c.appendInflated(dst, payload, kind)
	if bad != nil {
		return dst, bad
	}
	return out, nil
}

func (c *Codec) appendInflated(dst, payload []byte, kind Opcode) ([]byte, *CloseError) {
	var window []byte
	in := c.agreed.in
	if in != nil {
		window = in.Bytes()
	}
	d := decoders.Get().(*deflate.Decoder)
	out, err := d.Append(dst, payload, window, c.e.o.MaxMessage)
	decoders.Put(d)
	msg := out[min(len(dst), len(out)):]
	switch {
	case errors.Is(err, deflate.ErrTooLarge):
		return out, errTooBig()
	case err != nil:
		return out, errCorrupt()
	case kind == OpText && !c.e.o.SkipUTF8 && !validText(msg):
		return out, errNotUTF8()
	}
	if in != nil {
		in.Append(msg)
	}
	return out, nil
}

func errCorrupt() *CloseError {
	return &CloseError{Code: CloseInvalidPayload, Reason: "compressed message is corrupt"}
}
