package wire

import (
	"errors"
	"sync/atomic"
)

// Errors of [Codec.AppendEncode] and its relatives.
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

// Codec is one side of one WebSocket connection as a state machine without I/O: bytes go in, messages and replies come out. The
// package comment shows its states. An [Endpoint] makes it ready, also where it is a field of something larger.
//
// Decode, AppendReplies, Release, Opcode and Text belong to the one goroutine that reads the connection. AppendEncode and its
// relatives, AppendClose, Pings and Pongs may be called by any number of others at the same time, with one exception: where this side
// compresses with a context, frames have to be made one at a time and in the order in which they are sent.
//
// An open connection that is between two messages holds no more than the struct, 40 bytes, and what its extension has to remember.
type Codec struct {
	// Set before the state becomes open.
	e      *Endpoint
	agreed *agreement // nil: neither a subprotocol nor an extension
	// Owned by the reader.
	work *work // what is under way, or nil

	// Shared with writers.
	state atomic.Uint32
	pings atomic.Uint32
	pongs atomic.Uint32

	client bool   // this is the client's side, which masks; set before the state becomes open
	opcode Opcode // of AppendEncode; likewise
	last   Opcode // what Decode returned last; owned by the reader
}

// New returns the codec of a server's connection on which the handshake is done, without a subprotocol or an extension: the far end
// of a pipe. For many connections with the same options, an [Endpoint] is cheaper.
func New(o *Options) *Codec {
	c := new(Codec)
	NewEndpoint(o).Open(c)
	return c
}

// NewHandshake returns the codec of a server's connection on which nothing was read yet. It begins with the client's HTTP request,
// answers it through AppendReplies, and goes on with frames. Whom to accept is decided by o. For many connections with the same options,
// an [Endpoint] is cheaper.
func NewHandshake(o *Options) *Codec {
	c := new(Codec)
	NewEndpoint(o).Handshake(c)
	return c
}

// Decode looks at in, the unread bytes of the connection from the first unused one on, and takes one step: one frame, or the
// handshake's request.
//
//   - n > 0, msg not nil: a message, perhaps empty. It is valid until the next Decode or Release: it points into in, where it was
//     unmasked in place, or into memory of the codec. in[:n] is used up.
//   - n > 0, msg nil: in[:n] was a request, a control frame or a fragment.
//   - n = 0: more bytes are needed. Every further byte may bring the verdict that the peer broke a rule.
//   - n < 0: at least −n more bytes are needed, and nothing can be said before they are there.
//   - err not nil: the connection is over; n is 0. Fetch and send the replies, then close. A *[CloseError] with Remote set is the
//     peer's clean end; without, the peer broke a rule; a *[Refusal] refused the handshake. Every later call returns the same.
//
// Decode changes only bytes that it reports as used. Unread bytes have to be given again, with what arrived since behind them, and
// may have moved in between. It never allocates for messages that are neither fragmented nor compressed. [Options.Pieces] and
// [Options.Control] change what is returned.
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
		w.giveBack()
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

// checkText looks at the payload of a complete text frame, from where checkPartial has come. A whole message needs no state.
func (c *Codec) checkText(payload []byte, fin bool) bool {
	w := c.work
	if w == nil {
		if fin {
			return validText(payload)
		}
		w = c.under()
	}
	ok := w.text.add(payload[w.checked:]) && (!fin || w.text.complete())
	w.checked = 0
	return ok
}

// AppendReplies appends what the codec has to say by itself, and forgets it: the handshake's response, a pong, the close frame that
// answers the peer's or tells the peer what it did wrong. To be called after every Decode, also after one that failed. Of several
// pings since the last call only the newest is answered (RFC 6455 §5.5.3), so that what waits here is bounded. From when it gives a close frame,
// AppendEncode refuses: who still has to answer a message that came before the end does so before the replies are fetched.
func (c *Codec) AppendReplies(dst []byte) []byte {
	if c.work == nil { // which can be inlined
		return dst
	}
	return c.appendReplies(dst)
}

func (c *Codec) appendReplies(dst []byte) []byte {
	w := c.work
	if len(w.replies) > 0 {
		if w.closes && c.state.Swap(stateClosed) == stateClosed { // another close frame went out meanwhile
			w.replies = w.replies[:w.closeAt]
		}
		dst = append(dst, w.replies...)
		w.replies, w.hasPong, w.closes = w.replies[:0], false, false
		c.state.CompareAndSwap(stateHandshake, stateOpen) // a refusal has left this state before
	}
	c.rest()
	return dst
}

// Release says that the message which Decode returned last is not needed any more, so that its memory need not stay until the next
// Decode. To be called, when a message has been handled, by those who care what an idle connection holds.
func (c *Codec) Release() {
	if c.work != nil { // which can be inlined
		c.release()
	}
}

func (c *Codec) release() {
	c.work.giveBack()
	c.rest()
}

// Request is what the client asked for: after the Decode that accepted its handshake, until the next Decode or Release; otherwise nil.
func (c *Codec) Request() *Request { return c.inHand().req }

// Opcode is what Decode returned last: OpText or OpBinary, and with [Options.Control] also OpPing or OpPong.
func (c *Codec) Opcode() Opcode { return c.last }

// Text reports whether the message that Decode returned last was text; otherwise it was binary.
func (c *Codec) Text() bool { return c.last == OpText }

// Client reports whether this is the client's side.
func (c *Codec) Client() bool { return c.client }

// Subprotocol is what the handshake agreed on, empty for none. It is set from the Decode that completed the handshake on.
func (c *Codec) Subprotocol() string {
	if c.agreed == nil {
		return ""
	}
	return c.agreed.subprotocol
}

// Pings is the number of pings received, modulo 2^32; each was answered or superseded by the next, unless [Options.NoPong].
func (c *Codec) Pings() uint32 { return c.pings.Load() }

// Pongs is the number of pongs received, modulo 2^32, whether or not they answer a ping. A heartbeat compares it before and after.
func (c *Codec) Pongs() uint32 { return c.pongs.Load() }

// data takes the payload of a complete data frame and returns the message if it is the last one.
func (c *Codec) data(h *header, payload []byte) (msg []byte, bad *CloseError) {
	w := c.work
	if h.fin && (w == nil || w.kind == OpContinuation) { // the usual case: one frame
		c.last = h.op
		if h.deflated {
			return c.inflate(payload)
		}
		return payload, nil
	}
	w = c.under()
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

// pong queues the answer to a ping in the place of one that still waits.
func (c *Codec) pong(payload []byte) {
	if c.e.o.NoPong || c.state.Load() == stateClosed {
		return
	}
	w := c.under()
	if w.hasPong {
		w.replies = w.replies[:w.pongAt]
	}
	w.pongAt, w.hasPong = len(w.replies), true
	w.replies = c.appendFrame(w.replies, finBit|byte(OpPong), payload)
}

// fail ends the connection because of what the peer sent, and tells it so.
func (c *Codec) fail(bad *CloseError) error {
	return c.end(bad, bad.Reason)
}

// end makes the verdict final and queues our close frame, unless it is out. Until that is fetched others may still send: the message in front may
// be at work, and gets its answer.
func (c *Codec) end(verdict *CloseError, reason string) error {
	w := c.under()
	w.err = verdict
	putBuffer(w.message)
	w.message = nil
	if c.state.Load() != stateClosed {
		w.closeAt, w.closes = len(w.replies), true
		w.replies = c.appendClose(w.replies, verdict.Code, reason)
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
