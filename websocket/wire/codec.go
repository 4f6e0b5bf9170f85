package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"
)

// Errors of [Codec.AppendEncode].
var (
	// ErrNotOpen: the handshake's response was not fetched by AppendReplies yet; nothing may go before it.
	ErrNotOpen = errors.New("websocket: encode: handshake is not complete")
	// ErrCloseSent: a close frame went out, or the handshake was refused; nothing may follow it (RFC 6455 §5.5.1).
	ErrCloseSent = errors.New("websocket: encode: close frame was sent")
)

// The life of a connection as writers see it.
const (
	stateHandshake uint32 = iota // nothing may be sent but the response
	stateOpen
	stateClosed // our close frame is out, or the handshake was refused
)

// Codec is the server's side of one WebSocket connection as a state machine without I/O: bytes go in, messages and replies come
// out. The package comment shows its states.
//
// Decode, AppendReplies, Text and Subprotocol belong to the one goroutine that reads the connection. AppendEncode, AppendClose,
// Pings and Pongs may be called by any number of others at the same time.
//
// An open connection that is between two messages holds no more than the struct, less than 200 bytes, and the buffer of its last
// pong if it was ever pinged.
type Codec struct {
	// Set at New, or by the handshake before the state becomes open.
	maxMessage   int
	maxFragments int
	opcode       Opcode // of AppendEncode
	subprotocol  string

	// Owned by the reader.
	hs  *handshake // nil once frames flow
	err error      // the verdict; from then on nothing is decoded

	// The frame at the front of the unread bytes; owned by the reader.
	checked int // bytes of its payload that text has seen already

	// The message under way; owned by the reader.
	kind      Opcode // OpText or OpBinary from the first fragment on; OpContinuation when no message is under way
	fragments int
	message   []byte // the payloads of its fragments; grows with what arrived, never with what was announced
	text      textCheck
	lastText  bool // the last message returned was text

	// What AppendReplies has to give; owned by the reader.
	replies []byte
	pongAt  int // where the pong at the end of replies starts, when hasPong
	hasPong bool

	// Shared with writers.
	state atomic.Uint32
	pings atomic.Uint64
	pongs atomic.Uint64
}

// New returns the codec of a connection on which the handshake is done: what [Upgrade] returns, or the far end of a pipe.
func New(o *Options) *Codec {
	c := newCodec(o.withDefaults())
	c.state.Store(stateOpen)
	return c
}

// NewHandshake returns the codec of a connection on which nothing was read yet. It begins with the client's HTTP request, answers
// it through AppendReplies, and goes on with frames. Whom to accept is decided by o.
func NewHandshake(o *Options) *Codec {
	d := o.withDefaults()
	c := newCodec(d)
	c.hs = &handshake{options: d}
	return c
}

func newCodec(d Options) *Codec {
	return &Codec{maxMessage: d.MaxMessage, maxFragments: d.MaxFragments, opcode: d.Opcode}
}

// Decode looks at in, the unread bytes of the connection from the first unused one on, and takes one step: one frame, or the
// handshake's request.
//
//   - n > 0, msg not nil: a message, perhaps empty. It is valid until the next Decode: it points into in, where it was unmasked in
//     place, or into memory that the codec has let go. in[:n] is used up.
//   - n > 0, msg nil: in[:n] was a request, a control frame or a fragment.
//   - n = 0: more bytes are needed. Every further byte may bring the verdict that the peer broke a rule.
//   - n < 0: at least −n more bytes are needed, and nothing can be said before they are there.
//   - err not nil: the connection is over; n is 0. Fetch and send the replies, then close. A *[CloseError] with Remote set is the
//     peer's clean end; without, the peer broke a rule; a *[Refusal] refused the handshake. Every later call returns the same.
//
// Decode changes only bytes that it reports as used. Unread bytes have to be given again, with what arrived since behind them, and
// may have moved in between. It never allocates for unfragmented messages.
func (c *Codec) Decode(in []byte) (msg []byte, n int, err error) {
	switch {
	case c.err != nil:
		return nil, 0, c.err
	case c.hs != nil:
		n, err = c.decodeRequest(in)
		return nil, n, err
	}
	h, complete, bad := c.parseHeader(in)
	if bad != nil {
		return nil, 0, c.fail(bad)
	}
	if !complete {
		return nil, 0, nil
	}
	end := h.size + h.length
	isText := !h.op.control() && c.kindOf(h.op) == OpText
	if len(in) < end {
		if !isText {
			return nil, len(in) - end, nil
		}
		if !c.checkPartial(in[h.size:], h.key) {
			return nil, 0, c.fail(errNotUTF8())
		}
		return nil, 0, nil
	}
	payload := in[h.size:end:end]
	unmask(payload, h.key)
	if h.op.control() {
		if err := c.control(h.op, payload); err != nil {
			return nil, 0, err
		}
		return nil, end, nil
	}
	if isText && (!c.text.add(payload[c.checked:]) || h.fin && !c.text.complete()) {
		return nil, 0, c.fail(errNotUTF8())
	}
	c.checked = 0
	return c.data(h, payload), end, nil
}

// AppendEncode appends msg as one frame of the kind that Options.Opcode says. It copies msg and may be called concurrently with
// everything. With text the caller vouches for UTF-8. The error is [ErrNotOpen] or [ErrCloseSent], with dst returned as it was.
func (c *Codec) AppendEncode(dst, msg []byte) ([]byte, error) {
	switch c.state.Load() {
	case stateOpen:
		return AppendFrame(dst, c.opcode, msg), nil
	case stateHandshake:
		return dst, ErrNotOpen
	}
	return dst, ErrCloseSent
}

// AppendReplies appends what the codec has to say by itself, and forgets it: the handshake's response, a pong, the close frame that
// answers the peer's or tells the peer what it did wrong. To be called after every Decode, also after one that failed. Of several
// pings since the last call only the newest is answered (RFC 6455 §5.5.3), so that what waits here is bounded.
func (c *Codec) AppendReplies(dst []byte) []byte {
	if len(c.replies) == 0 {
		return dst
	}
	dst = append(dst, c.replies...)
	c.replies, c.hasPong = c.replies[:0], false
	if cap(c.replies) > 2*maxControl { // a handshake's response: never needed again
		c.replies = nil
	}
	c.state.CompareAndSwap(stateHandshake, stateOpen) // a refusal has left this state before
	return dst
}

// AppendClose appends a close frame, as the function [AppendClose] does, if none was made on this connection yet; otherwise, and
// before the handshake is complete, it returns dst as it is. Afterwards AppendEncode refuses, and the peer's answer, which Decode
// returns as a *[CloseError], is not answered again.
func (c *Codec) AppendClose(dst []byte, code uint16, reason string) []byte {
	if !c.state.CompareAndSwap(stateOpen, stateClosed) {
		return dst
	}
	return AppendClose(dst, code, reason)
}

// Text reports whether the message that Decode returned last was text; otherwise it was binary.
func (c *Codec) Text() bool { return c.lastText }

// Subprotocol is what the handshake agreed on, empty for none. It is set from the Decode that completed the handshake on.
func (c *Codec) Subprotocol() string { return c.subprotocol }

// Pings is the number of pings received; each was answered or superseded by the next.
func (c *Codec) Pings() uint64 { return c.pings.Load() }

// Pongs is the number of pongs received, whether or not they answer a ping. A heartbeat compares it before and after.
func (c *Codec) Pongs() uint64 { return c.pongs.Load() }

// header is a frame header that was checked.
type header struct {
	op     Opcode
	fin    bool
	length int    // of the payload
	size   int    // of the header itself
	key    uint32 // for unmask
}

// parseHeader reads the header at the front of in and checks everything that can be known from it, each rule as soon as the bytes
// for it are there: the verdict is the same however the bytes arrive. It changes nothing, since it is repeated until the frame is
// complete.
func (c *Codec) parseHeader(in []byte) (h header, complete bool, bad *CloseError) {
	if len(in) == 0 {
		return h, false, nil
	}
	h.op, h.fin = Opcode(in[0]&opcodeBits), in[0]&finBit != 0
	if bad = c.checkFirst(in[0]&rsvBits, h.op, h.fin); bad != nil || len(in) < 2 {
		return h, false, bad
	}
	if in[1]&maskBit == 0 {
		return h, false, violation("frame is not masked") // §5.1
	}
	length := uint64(in[1] & lengthBits)
	if h.op.control() && length > maxControl {
		return h, false, violation("control frame of more than 125 bytes") // §5.5
	}
	h.size = 2
	switch length {
	case length16:
		h.size += 2
		if len(in) < h.size {
			return h, false, nil
		}
		if length = uint64(binary.BigEndian.Uint16(in[2:])); length < length16 {
			return h, false, violation("length is not in its shortest form") // §5.2
		}
	case length64:
		h.size += 8
		if len(in) < h.size {
			return h, false, nil
		}
		length = binary.BigEndian.Uint64(in[2:])
		if length > math.MaxInt64 {
			return h, false, violation("length with the top bit set") // §5.2
		}
		if length <= math.MaxUint16 {
			return h, false, violation("length is not in its shortest form") // §5.2
		}
	}
	// A control frame's 125 bytes need no limit. The difference is not negative: the message got this far within the limit.
	if !h.op.control() && length > uint64(c.maxMessage-len(c.message)) {
		return h, false, &CloseError{Code: CloseTooBig, Reason: "message is too big"}
	}
	h.length = int(length)
	if len(in) < h.size+maskLen {
		return h, false, nil
	}
	h.key = binary.LittleEndian.Uint32(in[h.size:])
	h.size += maskLen
	return h, true, nil
}

// checkFirst checks what the first byte of a frame says. An extension that uses reserved bits will have to be negotiated first.
func (c *Codec) checkFirst(rsv byte, op Opcode, fin bool) *CloseError {
	switch {
	case rsv != 0:
		return violation("reserved bits are set") // §5.2
	case !op.known():
		return violation("opcode is reserved") // §5.2
	case op.control():
		if !fin {
			return violation("control frame is fragmented") // §5.5
		}
		return nil
	case op == OpContinuation && c.kind == OpContinuation:
		return violation("continuation without a message") // §5.4
	case op != OpContinuation && c.kind != OpContinuation:
		return violation("new message inside a fragmented one") // §5.4
	case c.fragments >= c.maxFragments:
		return &CloseError{Code: ClosePolicyViolation, Reason: "message has too many fragments"}
	}
	return nil
}

// kindOf is the kind of the message to which a data frame belongs.
func (c *Codec) kindOf(op Opcode) Opcode {
	if op == OpContinuation {
		return c.kind
	}
	return op
}

// checkPartial looks at what has arrived of a text frame's payload, each byte once, and leaves it masked: the bytes are not used
// yet.
func (c *Codec) checkPartial(payload []byte, key uint32) bool {
	var piece [512]byte
	for c.checked < len(payload) {
		n := copy(piece[:], payload[c.checked:])
		unmask(piece[:n], keyAt(key, c.checked))
		if !c.text.add(piece[:n]) {
			return false
		}
		c.checked += n
	}
	return true
}

// data takes the payload of a complete data frame and returns the message if it is the last one.
func (c *Codec) data(h header, payload []byte) []byte {
	c.kind = c.kindOf(h.op)
	if !h.fin {
		c.message = append(c.message, payload...)
		c.fragments++
		return nil
	}
	msg := payload
	if len(c.message) > 0 {
		msg = append(c.message, payload...)
	}
	c.lastText = c.kind == OpText
	// The buffer is let go, not kept: fragmented messages are rare, and idle connections are many.
	c.message, c.fragments, c.kind = nil, 0, OpContinuation
	return msg
}

// control handles a complete control frame.
func (c *Codec) control(op Opcode, payload []byte) error {
	switch op {
	case OpPing:
		c.pings.Add(1)
		c.pong(payload)
	case OpPong:
		c.pongs.Add(1)
	case OpClose:
		end := parseClose(payload)
		if !end.Remote {
			return c.fail(end)
		}
		return c.end(end, "") // the answer repeats the code (§5.5.1)
	}
	return nil
}

// pong queues the answer to a ping in the place of one that still waits.
func (c *Codec) pong(payload []byte) {
	if c.state.Load() == stateClosed {
		return
	}
	if c.hasPong {
		c.replies = c.replies[:c.pongAt]
	}
	c.pongAt, c.hasPong = len(c.replies), true
	c.replies = AppendFrame(c.replies, OpPong, payload)
}

// fail ends the connection because of what the peer sent, and tells it so.
func (c *Codec) fail(bad *CloseError) error {
	return c.end(bad, bad.Reason)
}

// end makes the verdict final and queues our close frame, unless it is out.
func (c *Codec) end(verdict *CloseError, reason string) error {
	c.err, c.message = verdict, nil
	if c.state.Swap(stateClosed) != stateClosed {
		c.replies = AppendClose(c.replies, verdict.Code, reason)
	}
	return verdict
}

// violation is a broken rule of RFC 6455.
func violation(rule string) *CloseError {
	return &CloseError{Code: CloseProtocolError, Reason: rule}
}

func errNotUTF8() *CloseError {
	return &CloseError{Code: CloseInvalidPayload, Reason: "text is not UTF-8"} // §8.1
}
