package websocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Conn is one WebSocket connection, of either side. All methods may be called by any goroutine at any time, unless they say otherwise;
// none blocks but those that wait for messages, and, under the policy session.Wait, those that send, when the peer does not read.
//
// On an event loop an idle Conn has neither a goroutine nor a buffer.
type Conn struct {
	codec wire.Codec
	s     atomic.Pointer[session.Session] // set before Open is called
	frag  *fragmented                     // the message that NextWriter began; guarded by the order of what is encoded
	stage atomic.Uint32

	e     *engine
	value atomic.Pointer[any] // the user's, nil for none
	pull  *pull               // or nil

	ending sync.Mutex // held from where a close frame is made until it is with the session
}

// The stages of a connection. Until it is opening its fields belong to who makes the handshake, and nobody else may know of it.
const (
	shaking    uint32 = iota // the handshake is not done
	opening                  // Open of the handler is being called
	drainsSoon               // likewise, and Drain is owed
	opened
)

// newConn makes the connection of a session that does not run yet.
func (e *engine) newConn() *Conn {
	c := &Conn{e: e}
	if e.h.Pull {
		c.pull = new(pull)
	}
	return c
}

// The codec of a session is its connection.

// Decode implements session.Codec.
func (c *Conn) Decode(in []byte) (msg []byte, n int, err error) {
	msg, n, err = c.codec.Decode(in)
	if err != nil { // which ends the session, but not before a close frame that was made is with it
		c.ending.Lock()
		c.ending.Unlock() //nolint:staticcheck // it waits for end
	}
	if msg == nil && n > 0 && c.codec.Request() != nil {
		msg = accepted // so that the session calls Message
	}
	return msg, n, err
}

// accepted is what Decode returns when the handshake is done.
var accepted = []byte{}

// AppendEncode implements session.Codec. It is for those who send with the session: a message of the kind that the handshake chose.
func (c *Conn) AppendEncode(dst, msg []byte) ([]byte, error) {
	if c.frag != nil {
		return dst, ErrWriterOpen
	}
	return encoded(c.codec.AppendEncode(dst, msg))
}

// AppendReplies implements session.Replier.
func (c *Conn) AppendReplies(dst []byte) []byte { return c.codec.AppendReplies(dst) }

// Subprotocol is what the handshake agreed on, empty for none.
func (c *Conn) Subprotocol() string { return c.codec.Subprotocol() }

// RemoteAddr returns the address of the peer, also after the connection has ended.
func (c *Conn) RemoteAddr() net.Addr { return c.s.Load().RemoteAddr() }

// LocalAddr returns the address on this side, also after the connection has ended.
func (c *Conn) LocalAddr() net.Addr { return c.s.Load().LocalAddr() }

// Session returns the session under the connection: its identity, its limits, and TryWrite for those who fan out frames. Its Value is the
// Conn, and must not be changed. Who writes frames to it must not do so while a writer of NextWriter is open.
func (c *Conn) Session() *session.Session { return c.s.Load() }

// Value returns what SetValue was last given, or nil.
func (c *Conn) Value() any {
	if v := c.value.Load(); v != nil {
		return *v
	}
	return nil
}

// SetValue keeps the user's state of this connection. Usually it is called once, in Open; until then who meets the connection elsewhere,
// as in Conns, finds nil.
func (c *Conn) SetValue(v any) { c.value.Store(&v) }

// Client reports whether this is the client's side.
func (c *Conn) Client() bool { return c.codec.Client() }

// Close begins the closing handshake (RFC 6455 §7.1.2): it sends a close frame behind all that was sent before, with a code and a
// reason of at most 123 bytes, and returns; what is longer is cut, and a code that may not travel, such as 0 or 1006, makes a frame
// without both. From now on nothing can be sent, and no message arrives any more. The connection ends when the peer has answered, at the
// latest after Options.Session.Linger; Close of the handler tells. The error is [ErrClosed] if the connection is ending already.
func (c *Conn) Close(code uint16, reason string) error {
	if !c.end(code, reason, &CloseError{Code: code, Reason: reason}) {
		return ErrClosed
	}
	return nil
}

// CloseNow ends the connection at once, without a word to the peer, and drops what is not written. It does not wait.
func (c *Conn) CloseNow() { c.s.Load().Abort(ErrClosed) }

// end sends a close frame if none was sent yet, which it reports, and ends the session with a cause. If there was one, whoever made it ends
// the session: another caller, or the reader, whose Decode answers the peer's. To come before would lose the frame.
func (c *Conn) end(code uint16, reason string, cause error) bool {
	c.ending.Lock()
	defer c.ending.Unlock()
	frame := c.codec.AppendClose(nil, code, reason)
	if len(frame) == 0 {
		return false
	}
	c.s.Load().EndWait(frame, cause)
	return true
}

// Ping sends a ping with a payload of at most 125 bytes, which the peer sends back in a pong; more panics.
func (c *Conn) Ping(payload []byte) error { return c.s.Load().SendAs((*pinging)(c), payload) }

// Pong sends a pong with a payload of at most 125 bytes; more panics. Pings are answered without it, unless Options.NoPong.
func (c *Conn) Pong(payload []byte) error { return c.s.Load().SendAs((*ponging)(c), payload) }

// Send sends a message, OpText or OpBinary. With text the caller vouches for UTF-8. The data is copied or finished with when Send
// returns. If the connection takes it at once that is all; otherwise it is queued, and when the queue is full Options.Session.Policy
// decides. A nil error means that the message was accepted, not that it has arrived. The errors: [ErrClosed] with the cause,
// [ErrWriterOpen], session.ErrQueueFull and session.ErrTimeout.
func (c *Conn) Send(op Opcode, data []byte) error {
	switch {
	case len(data) >= direct && !c.codec.Client() && !c.codec.Compresses(len(data)):
		if op == OpText {
			return c.s.Load().SendAs((*textDirect)(c), data)
		}
		return c.s.Load().SendAs((*binaryDirect)(c), data)
	case op == OpText:
		return c.s.Load().SendAs((*texting)(c), data)
	default:
		return c.s.Load().SendAs((*binarying)(c), data)
	}
}

// SendText is Send for text.
func (c *Conn) SendText(text string) error { return c.Send(OpText, []byte(text)) }

// SendContext is [Conn.Send] with a limit on how long it may wait for a peer that does not read. When ctx is done first the connection ends
// with its error, because nobody knows how much of the message has gone.
func (c *Conn) SendContext(ctx context.Context, op Opcode, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.s.Load().Abort(context.Cause(ctx)) })
	defer stop()
	return c.Send(op, data)
}

// direct is from how many bytes on a message is sent from where it lies, if it can be.
const direct = 8 << 10

// The ways in which a connection encodes, as types, so that none needs memory.
type (
	texting      Conn
	binarying    Conn
	textDirect   Conn
	binaryDirect Conn
	pinging      Conn
	ponging      Conn
)

func (c *texting) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpText, msg)
}

func (c *binarying) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpBinary, msg)
}

func (c *textDirect) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpText, msg)
}

func (c *textDirect) AppendHeader(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendHeader(dst, OpText, len(msg))
}

func (c *binaryDirect) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpBinary, msg)
}

func (c *binaryDirect) AppendHeader(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendHeader(dst, OpBinary, len(msg))
}

func (c *pinging) AppendEncode(dst, msg []byte) ([]byte, error) {
	return encoded(c.codec.AppendControl(dst, OpPing, msg))
}

func (c *ponging) AppendEncode(dst, msg []byte) ([]byte, error) {
	return encoded(c.codec.AppendControl(dst, OpPong, msg))
}

func (c *Conn) appendMessage(dst []byte, op Opcode, msg []byte) ([]byte, error) {
	if c.frag != nil {
		return dst, ErrWriterOpen
	}
	return encoded(c.codec.AppendMessage(dst, op, msg))
}

func (c *Conn) appendHeader(dst []byte, op Opcode, n int) ([]byte, error) {
	if c.frag != nil {
		return dst, ErrWriterOpen
	}
	return encoded(c.codec.AppendMessageHeader(dst, op, n))
}

// encoded returns what an encoder did. A close frame that was made just now ends the session, which may not know of it yet.
func encoded(dst []byte, err error) ([]byte, error) { return dst, asClosed(err) }

func asClosed(err error) error {
	if err == nil {
		return nil
	}
	return closedBy(err)
}

func closedBy(err error) error {
	if errors.Is(err, wire.ErrCloseSent) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
