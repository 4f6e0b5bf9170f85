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

// Conn is one WebSocket connection, of a server or a client. All methods may be called by any goroutine at any time, unless they say otherwise.
// Methods that wait for messages block. Methods that send block under the policy session.Wait, if the peer does not read.
//
// On an event loop an idle Conn has neither a goroutine nor a buffer.
type Conn struct {
	codec wire.Codec
	s     atomic.Pointer[session.Session] // set before Open is called
	frag  *fragmented                     // the message that NextWriter began; guarded by the order of the encoder's calls
	stage atomic.Uint32

	e     *engine
	value atomic.Pointer[any] // the user's, nil for none
	pull  *pull               // nil without Handler.Pull

	ending sync.Mutex // held from the making of a close frame until the session has the frame
}

// The stages of a connection. While it is handshaking, the goroutine that performs the handshake owns its fields, and Conns does not yield it.
const (
	handshaking  uint32 = iota // the handshake is not done
	opening                    // Open of the handler is being called
	drainPending               // as opening, and Drain is called when Open has returned
	opened
)

// newConn returns the connection of a session that does not run yet.
func (e *engine) newConn() *Conn {
	c := &Conn{e: e}
	if e.h.Pull {
		c.pull = new(pull)
	}
	return c
}

// A Conn is the codec of its session.

// Decode implements session.Codec.
func (c *Conn) Decode(in []byte) (msg []byte, n int, err error) {
	msg, n, err = c.codec.Decode(in)
	if err != nil { // the error ends the session, but a close frame that is being made must reach the session first
		c.ending.Lock()
		c.ending.Unlock() //nolint:staticcheck // it waits for end
	}
	if msg == nil && n > 0 && c.codec.Request() != nil {
		msg = accepted // an empty message, for which the session calls Message
	}
	return msg, n, err
}

// accepted is what Decode returns as the message when the handshake is done.
var accepted = []byte{}

// AppendEncode implements session.Codec. It encodes messages that are sent with methods of the session, as the kind that the handshake chose.
func (c *Conn) AppendEncode(dst, msg []byte) ([]byte, error) {
	if c.frag != nil {
		return dst, ErrWriterOpen
	}
	return encoded(c.codec.AppendEncode(dst, msg))
}

// AppendReplies implements session.Replier.
func (c *Conn) AppendReplies(dst []byte) []byte { return c.codec.AppendReplies(dst) }

// Subprotocol returns the subprotocol that the handshake agreed on, or the empty string.
func (c *Conn) Subprotocol() string { return c.codec.Subprotocol() }

// RemoteAddr returns the address of the peer, also after the connection has ended.
func (c *Conn) RemoteAddr() net.Addr { return c.s.Load().RemoteAddr() }

// LocalAddr returns the address on this side, also after the connection has ended.
func (c *Conn) LocalAddr() net.Addr { return c.s.Load().LocalAddr() }

// Session returns the session under the connection, for its identity, its limits and TryWrite. The session's Value is the Conn and must not be
// changed. Do not write frames to the session while a writer of NextWriter is open.
func (c *Conn) Session() *session.Session { return c.s.Load() }

// Value returns what SetValue was last given, or nil.
func (c *Conn) Value() any {
	if v := c.value.Load(); v != nil {
		return *v
	}
	return nil
}

// SetValue stores the user's state of this connection. It is usually called once, in Open. Until then Value returns nil, also for connections
// found by Conns.
func (c *Conn) SetValue(v any) { c.value.Store(&v) }

// Client reports whether this is the client's side.
func (c *Conn) Client() bool { return c.codec.Client() }

// Close begins the closing handshake (RFC 6455 §7.1.2): it queues a close frame behind everything that was sent before, and returns. The reason
// has at most 123 bytes and is cut if it is longer. A code that may not be sent, such as 0 or 1006, makes a frame without code and reason.
//
// From now on nothing can be sent, and no message arrives. The connection ends when the peer has answered, or at the latest after
// Options.Session.Linger; then the handler's Close is called. If the connection is ending already, the error is [ErrClosed].
func (c *Conn) Close(code uint16, reason string) error {
	if !c.end(code, reason, &CloseError{Code: code, Reason: reason}) {
		return ErrClosed
	}
	return nil
}

// CloseNow ends the connection at once, without a close frame, and drops unwritten bytes. It does not wait.
func (c *Conn) CloseNow() { c.s.Load().Abort(ErrClosed) }

// end sends a close frame and ends the session with cause, and reports whether it did. If a close frame was made before, its maker ends the
// session: another caller of end, or the reader, whose Decode answers the peer's close frame. If end ended the session first, that frame would
// be lost.
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

// Ping sends a ping with a payload of at most 125 bytes, which the peer returns in a pong. A larger payload panics.
func (c *Conn) Ping(payload []byte) error { return c.s.Load().SendAs((*pingEncoder)(c), payload) }

// Pong sends a pong with a payload of at most 125 bytes. A larger payload panics. Without Options.NoPong, pings are answered automatically.
func (c *Conn) Pong(payload []byte) error { return c.s.Load().SendAs((*pongEncoder)(c), payload) }

// Send sends a message, OpText or OpBinary. The caller guarantees that text is UTF-8. After Send returns, the caller may change data. Bytes that
// the connection does not take at once are queued. If the queue is full, Options.Session.Policy decides. A nil error means that the message was
// accepted, not that it has arrived. The errors are [ErrClosed] with the cause, [ErrWriterOpen], session.ErrQueueFull and session.ErrTimeout.
func (c *Conn) Send(op Opcode, data []byte) error {
	switch {
	case len(data) >= direct && !c.codec.Client() && !c.codec.Compresses(len(data)):
		if op == OpText {
			return c.s.Load().SendAs((*directTextEncoder)(c), data)
		}
		return c.s.Load().SendAs((*directBinaryEncoder)(c), data)
	case op == OpText:
		return c.s.Load().SendAs((*textEncoder)(c), data)
	default:
		return c.s.Load().SendAs((*binaryEncoder)(c), data)
	}
}

// SendText is [Conn.Send] for a text message.
func (c *Conn) SendText(text string) error { return c.Send(OpText, []byte(text)) }

// SendContext is [Conn.Send] with a limit on how long it may wait for a peer that does not read. If ctx is done first, the connection ends with
// the context's error, because an unknown part of the message has been written.
func (c *Conn) SendContext(ctx context.Context, op Opcode, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.s.Load().Abort(context.Cause(ctx)) })
	defer stop()
	return c.Send(op, data)
}

// direct is the size in bytes from which a message is sent from the caller's memory, without a copy, if that is possible.
const direct = 8 << 10

// The encoders of a connection. They are types over Conn, so that converting a *Conn to an encoder allocates nothing.
type (
	textEncoder         Conn
	binaryEncoder       Conn
	directTextEncoder   Conn
	directBinaryEncoder Conn
	pingEncoder         Conn
	pongEncoder         Conn
)

func (c *textEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpText, msg)
}

func (c *binaryEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpBinary, msg)
}

func (c *directTextEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpText, msg)
}

func (c *directTextEncoder) AppendHeader(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendHeader(dst, OpText, len(msg))
}

func (c *directBinaryEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendMessage(dst, OpBinary, msg)
}

func (c *directBinaryEncoder) AppendHeader(dst, msg []byte) ([]byte, error) {
	return (*Conn)(c).appendHeader(dst, OpBinary, len(msg))
}

func (c *pingEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
	return encoded(c.codec.AppendControl(dst, OpPing, msg))
}

func (c *pongEncoder) AppendEncode(dst, msg []byte) ([]byte, error) {
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

// encoded returns the result of an encoder. An error because of a close frame becomes [ErrClosed]: the session may not know yet that it is
// ending.
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
