package wire

import (
	"errors"
	"sync/atomic"
)

// Errors of the Append methods of a [Codec].
var (
	// ErrNotOpen says that AppendReplies has not returned the handshake's response yet; nothing may be sent before it.
	ErrNotOpen = errors.New("websocket: encode: handshake is not complete")
	// ErrCloseSent says that a close frame was sent, or the handshake was refused; nothing may follow (RFC 6455 §5.5.1).
	ErrCloseSent = errors.New("websocket: encode: close frame was sent")
)

// The states of a connection for its writers.
const (
	stateHandshake uint32 = iota // only the handshake's response may be sent
	stateOpen
	stateClosed // this side's close frame is made, or the handshake was refused
)

// Codec is one side of one WebSocket connection as a state machine without I/O: received bytes go in, messages and replies come out. The package
// comment shows its states. New, NewHandshake or an [Endpoint] makes it ready for use. An Endpoint can also prepare a Codec that is a field of
// another struct.
//
// Decode, AppendReplies, Release, Request, Opcode and Text belong to the one goroutine that reads the connection. AppendEncode, the other Append
// methods for frames, AppendClose, Pings and Pongs may be called by any number of goroutines at the same time, with one exception: if this side
// compresses with a context, frames must be made one at a time, in the order in which they are sent.
//
// An open connection between two messages holds only the struct of 40 bytes and the contexts of its compression.
type Codec struct {
	// Set before the state becomes open.
	e      *Endpoint
	agreed *agreement // nil: neither a subprotocol nor an extension
	// Owned by the reader.
	work *work // the current work of Decode, or nil if there is none

	// Shared with writers.
	state atomic.Uint32
	pings atomic.Uint32
	pongs atomic.Uint32

	client bool   // this side is the client, which masks its frames; set before the state becomes open
	opcode Opcode // the kind that AppendEncode makes; set before the state becomes open
	last   Opcode // the opcode that Decode returned last; owned by the reader
}

// New returns the codec of a server's connection whose handshake is done, without a subprotocol or an extension, such as one end of a pipe. For
// many connections with the same options, an [Endpoint] is cheaper.
func New(o *Options) *Codec {
	c := new(Codec)
	NewEndpoint(o).Open(c)
	return c
}

// NewHandshake returns the codec of a server's connection from which no byte has been read. The codec reads the client's HTTP request, answers
// it through AppendReplies, and goes on with frames. The options decide which clients are accepted. For many connections with the same options,
// an [Endpoint] is cheaper.
func NewHandshake(o *Options) *Codec {
	c := new(Codec)
	NewEndpoint(o).Handshake(c)
	return c
}

// Decode takes one step: it decodes one frame, or the handshake's request. The argument in holds the unread bytes of the connection, from the
// first unused byte on.
//
//   - n > 0, msg not nil: a message, perhaps empty. It is valid until the next Decode or Release. It points into in, where it was
//     unmasked in place, or into memory of the codec. in[:n] is used.
//   - n > 0, msg nil: in[:n] was a request, a control frame or a fragment.
//   - n = 0: more bytes are needed. Every further byte may show that the peer broke a rule.
//   - n < 0: at least −n more bytes are needed. With fewer, Decode cannot return anything else.
//   - err not nil: the connection is over and n is 0. Send the bytes of AppendReplies, then close the connection. A *[CloseError] with
//     Remote set is the peer's clean end; without it, the peer broke a rule. A *[Refusal] refused the handshake. Every later call returns
//     the same error.
//
// Decode changes only bytes that it reports as used. The next call gets the unused bytes again, followed by the bytes that have arrived since; they
// may be at another address. Decode never allocates for messages that are neither fragmented nor compressed. [Options.Pieces] and
// [Options.Control] change the results.
func (c *Codec) Decode(in []byte) (msg []byte, n int, err error) {
	if w := c.work; w == nil {
		if msg, n, err = c.decodeWhole(in); n != 0 || err != nil {
			return msg, n, err
		}
	} else {
		switch {
		case w.err != nil:
			return nil, 0, w.err
		case w.hs != nil:
			n, err = c.decodeRequest(in)
			return nil, n, err
		case w.streaming:
			return c.cut(in, 0)
		}
		w.freeMessage()
	}
	var h header
	complete, bad := c.parseHeader(in, &h)
	if bad != nil {
		return nil, 0, c.fail(bad)
	}
	if !complete {
		return nil, 0, nil
	}
	if c.e.o.Pieces && !h.op.control() {
		return c.begin(&h, in)
	}
	end := h.size + h.length
	isText := c.checksText(&h)
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
		return c.control(&h, in[:end])
	}
	if isText && !c.checkText(payload, h.fin) {
		return nil, 0, c.fail(errNotUTF8())
	}
	msg, bad = c.data(&h, payload)
	if bad != nil {
		return nil, 0, c.fail(bad)
	}
	return msg, end, nil
}

// checkText checks the payload of a complete text frame, from the byte that checkPartial has reached. A message of one frame needs no state.
func (c *Codec) checkText(payload []byte, fin bool) bool {
	w := c.work
	if w == nil {
		if fin {
			return validText(payload)
		}
		w = c.ensureWork()
	}
	ok := w.text.add(payload[w.checked:]) && (!fin || w.text.complete())
	w.checked = 0
	return ok
}

// AppendReplies appends the codec's own replies and forgets them: the handshake's response, a pong, and the close frame that answers the peer's
// or states the rule that the peer broke. Call it after every Decode, including one that failed. Only the newest of several pings since the last
// call is answered (RFC 6455 §5.5.3), so that the waiting replies are bounded. After AppendReplies has returned a close frame, AppendEncode
// refuses: answer the earlier messages before this call.
func (c *Codec) AppendReplies(dst []byte) []byte {
	if c.work == nil { // this function is small enough to be inlined
		return dst
	}
	return c.appendReplies(dst)
}

func (c *Codec) appendReplies(dst []byte) []byte {
	w := c.work
	if len(w.replies) > 0 {
		if w.closes && c.state.Swap(stateClosed) == stateClosed { // AppendClose has made another close frame meanwhile
			w.replies = w.replies[:w.closeAt]
		}
		dst = append(dst, w.replies...)
		w.replies, w.hasPong, w.closes = w.replies[:0], false, false
		c.state.CompareAndSwap(stateHandshake, stateOpen) // after a refusal the state is closed already
	}
	c.releaseWork()
	return dst
}

// Release says that the message of the last Decode is not needed any more, so that the codec can free its memory before the next Decode. Call it
// after each message to keep idle connections small.
func (c *Codec) Release() {
	if c.work != nil { // this function is small enough to be inlined
		c.release()
	}
}

func (c *Codec) release() {
	c.work.freeMessage()
	c.releaseWork()
}

// Request returns the client's handshake request, from the Decode that accepted it until the next Decode or Release; otherwise nil.
func (c *Codec) Request() *Request { return c.currentWork().req }

// Opcode returns the kind of the last result of Decode: OpText or OpBinary, and with [Options.Control] also OpPing or OpPong.
func (c *Codec) Opcode() Opcode { return c.last }

// Text reports whether the last message of Decode was text; otherwise it was binary.
func (c *Codec) Text() bool { return c.last == OpText }

// Client reports whether this side is the client.
func (c *Codec) Client() bool { return c.client }

// Subprotocol returns the subprotocol that the handshake agreed on, or the empty string. It is set by the Decode that completes the handshake.
func (c *Codec) Subprotocol() string {
	if c.agreed == nil {
		return ""
	}
	return c.agreed.subprotocol
}

// Pings returns the number of pings received, modulo 2^32. Each was answered or replaced by the next, unless [Options.NoPong].
func (c *Codec) Pings() uint32 { return c.pings.Load() }

// Pongs returns the number of pongs received, modulo 2^32, whether or not they answer a ping. A heartbeat compares it before and after its ping.
func (c *Codec) Pongs() uint32 { return c.pongs.Load() }

// data handles the payload of a complete data frame. It returns the message if the frame is the last one of it.
func (c *Codec) data(h *header, payload []byte) (msg []byte, bad *CloseError) {
	w := c.work
	if h.fin && (w == nil || w.kind == OpContinuation) { // the usual case: one frame
		c.last = h.op
		if h.deflated {
			return c.inflate(payload)
		}
		return payload, nil
	}
	w = c.ensureWork()
	if w.kind == OpContinuation {
		w.kind, w.deflated = h.op, h.deflated
	}
	w.message = appendShared(w.message, payload)
	w.total = len(w.message)
	if !h.fin {
		w.fragments++
		return nil, nil
	}
	c.last = w.kind
	w.lent, msg = w.message, w.message
	deflated := w.deflated
	w.message, w.total, w.fragments, w.kind, w.deflated = nil, 0, 0, OpContinuation, false
	if !deflated {
		return msg[:len(msg):len(msg)], nil
	}
	w.lent = nil
	out, bad := c.inflate(msg)
	putBuffer(msg)
	return out, bad
}

// control handles a complete control frame, whose payload is unmasked.
func (c *Codec) control(h *header, frame []byte) (msg []byte, n int, err error) {
	payload := frame[h.size:]
	switch h.op {
	case OpPing:
		c.pings.Add(1)
		c.pong(payload)
	case OpPong:
		c.pongs.Add(1)
	case OpClose:
		end := parseClose(payload)
		if !end.Remote {
			return nil, 0, c.fail(end)
		}
		return nil, 0, c.end(end, "") // the answer repeats the code (§5.5.1)
	}
	if !c.e.o.Control {
		return nil, len(frame), nil
	}
	c.last = h.op
	if c.e.o.Pieces {
		frame[h.size-1] = byte(h.op) | TagLast
		return frame[h.size-1 : len(frame) : len(frame)], len(frame), nil
	}
	return payload[:len(payload):len(payload)], len(frame), nil
}

// pong queues the answer to a ping. It replaces an earlier pong that still waits.
func (c *Codec) pong(payload []byte) {
	if c.e.o.NoPong || c.state.Load() == stateClosed {
		return
	}
	w := c.ensureWork()
	if w.hasPong {
		w.replies = w.replies[:w.pongAt]
	}
	w.pongAt, w.hasPong = len(w.replies), true
	w.replies = c.appendFrame(w.replies, finBit|byte(OpPong), payload)
}

// fail ends the connection because the peer broke a rule, and queues a close frame that names the rule.
func (c *Codec) fail(bad *CloseError) error {
	return c.end(bad, bad.Reason)
}

// end makes the verdict final and queues this side's close frame, unless one was made. Until AppendReplies returns that frame, other goroutines
// may still send: a handler may be at work on an earlier message, and its answer is still sent.
func (c *Codec) end(verdict *CloseError, reason string) error {
	w := c.ensureWork()
	w.err = verdict
	putBuffer(w.message)
	w.message = nil
	if c.state.Load() != stateClosed {
		w.closeAt, w.closes = len(w.replies), true
		w.replies = c.appendClose(w.replies, verdict.Code, reason)
	}
	return verdict
}

// violation returns the error for a broken rule of RFC 6455.
func violation(rule string) *CloseError {
	return &CloseError{Code: CloseProtocolError, Reason: rule}
}

func errNotUTF8() *CloseError {
	return &CloseError{Code: CloseInvalidPayload, Reason: "text is not UTF-8"} // §8.1
}
