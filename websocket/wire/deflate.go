package wire

import (
	"errors"
	"math"
	"sync"

	"github.com/sluice-push/sluice/internal/deflate"
)

// Compression is how messages are compressed, and what is offered or agreed to (permessage-deflate, RFC 7692). The zero value
// compresses each message on its own, which costs no memory for a connection.
type Compression struct {
	// Level is how hard to look for what repeats, from 1, fast, to 9, small. Zero: 1.
	Level int
	// Threshold is the size in bytes from which on messages are compressed. Zero: 128. Negative: all.
	Threshold int
	// Takeover has this side refer to its earlier messages, if the peer agrees: much smaller where messages are alike, for some ten to a
	// hundred kilobytes for each connection, as WindowBits says, and without sharing the work of a broadcast.
	Takeover bool
	// PeerTakeover lets the peer do so, for up to 2^PeerWindowBits bytes for each connection, as they are filled.
	PeerTakeover bool
	// WindowBits is how far back this side refers: 2^WindowBits bytes, 8 to 15. The peer may ask for less. Zero: 15, with Takeover 12.
	WindowBits int
	// PeerWindowBits is how far back the peer is allowed to refer, if it agrees. Zero: 15.
	PeerWindowBits int
	// ReceiveOnly inflates what the peer sends and compresses nothing.
	ReceiveOnly bool
	// NewDeflater makes what compresses the messages of this side, if there is a better one. It returns nil for a window that it cannot
	// keep; what would need that is declined. Nil: our own, which keeps any.
	NewDeflater func(level, windowBits int) Deflater

	windows uint16 // the windows that can be kept, a bit for each
}

// Deflater compresses messages, one after the other. It is used by one goroutine at a time.
type Deflater interface {
	// Append appends msg in the form of RFC 7692 §7.2.1: DEFLATE blocks that end at a byte boundary with an empty block without
	// compression, of which the last four bytes, 00 00 ff ff, are left out. It may refer to earlier messages since Reset.
	Append(dst, msg []byte) []byte
	// Reset forgets them.
	Reset()
}

const (
	defaultThreshold    = 128
	defaultTakeoverBits = 12
)

// withDefaults returns a copy in which every number means itself.
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

// keeps reports whether this side can keep such a window.
func (c *Compression) keeps(bits uint8) bool { return c.windows>>bits&1 == 1 }

// wireLimit is how large the payloads of a message may be: those of a compressed one may be a little larger than what they stand for.
func (e *Endpoint) wireLimit(deflated bool) int {
	limit := e.o.MaxMessage
	if deflated && limit < maxLimit/2 {
		limit += limit/8 + 64
	}
	return limit
}

// newDeflater makes one for a window that can be kept.
func (e *Endpoint) newDeflater(bits uint8) Deflater {
	return e.o.Compression.NewDeflater(e.o.Compression.Level, int(bits))
}

// deflater lends one without a context.
func (e *Endpoint) deflater(bits uint8) Deflater {
	d, _ := e.encoders[bits].Get().(Deflater)
	if d == nil {
		return e.newDeflater(bits)
	}
	d.Reset()
	return d
}

// deflates reports whether compressed messages may come.
func (c *Codec) deflates() bool { return c.agreed != nil && c.agreed.deflate != nil }

// Compresses reports whether a message of n bytes is compressed by AppendMessage. If it does not get smaller, and no context is
// kept, it goes as it is all the same.
func (c *Codec) Compresses(n int) bool {
	return c.state.Load() != stateHandshake && c.deflates() && n >= c.e.o.Compression.Threshold
}

// Variant tells apart the frames that a message of n bytes becomes: for all connections with the same number AppendMessage makes
// frames that stand for each other, so that one of them can be written to all. It is negative where each connection needs its own: on
// the client's side, with a context, and while the handshake is not done.
func (c *Codec) Variant(n int) int {
	switch {
	case c.client || c.state.Load() == stateHandshake || c.deflates() && c.agreed.out != nil:
		return -1
	case c.Compresses(n):
		return int(c.agreed.deflate.bits)
	}
	return 0
}

// Variants is how many numbers Variant may tell, from 0 on.
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
	dst = c.appendHeader(dst, first, len(msg)) // as long as it will be, in nearly all cases
	body := len(dst)
	dst = d.Append(dst, msg)
	n := len(dst) - body
	if a.out == nil && n >= len(msg) {
		return c.appendFrame(dst[:start], finBit|byte(op), msg)
	}
	return c.fitHeader(dst, start, body, first)
}

// fitHeader completes a frame whose header was written before the length was known: it moves the payload if the header has another
// length, and masks it.
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

// inflate returns the message for which the payload stands, in memory that Release gives back.
func (c *Codec) inflate(payload []byte) (msg []byte, bad *CloseError) {
	msg, bad = c.appendInflated(getBuffer(), payload, c.last)
	c.under().lent = msg
	if bad != nil {
		return nil, bad
	}
	return msg[:len(msg):len(msg)], nil
}

// AppendInflated appends the message for which the payload of a compressed one stands, the pieces of [Options.Pieces] put together
// without their tags. Kind is what the tags say. The error is a *[CloseError] with which the connection should be closed: the message is
// larger than Options.MaxMessage, corrupt, or text that is not UTF-8. It belongs to the one who reads the messages, in their order.
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
