package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Messages that are asked for. The session hands over pieces, as they arrive, each with a tag (see package wire); here they become messages
// or streams, on the goroutine of who asks.

// pull is what one who asks has in hand. It belongs to who has set busy.
type pull struct {
	busy   atomic.Bool
	tag    byte    // of the message under way
	within bool    // there is one
	piece  []byte  // what is left of the newest piece
	raw    []byte  // its pieces, put together
	whole  []byte  // the message, inflated
	open   *reader // the stream of the message under way
}

// keptBytes is how much memory is kept for the next message.
const keptBytes = 64 << 10

// Receive waits for the next message of a connection whose handler says Pull, and of those of [Dial]. Its Data is valid until the next
// call. When none comes any more the error is a *[CloseError], which is an io.EOF, if the peer closed the connection, and within
// a message an io.ErrUnexpectedEOF too; otherwise
// [ErrClosed] with the cause. The context's error, wrapped, loses nothing: the next call gets the message. session.ErrReceiving says that
// another goroutine is receiving, session.ErrNoPull that messages go to a handler. It must not be called by a function of the handler.
func (c *Conn) Receive(ctx context.Context) (Message, error) {
	p, err := c.take()
	if err != nil {
		return Message{}, err
	}
	defer p.busy.Store(false)
	return c.receive(ctx, p)
}

// Messages iterates over the messages of a connection whose handler says Pull, and of those of [Dial]. Each is valid until the next
// iteration. What err points to is nil while the iteration lasts, and when it has ended because the peer closed the connection with code 1000 or 1001, or without one, or the caller has
// broken out of it, which leaves the connection open; otherwise it is one of the errors of [Conn.Receive].
//
//	for m := range c.Messages(ctx, &err) { … }
func (c *Conn) Messages(ctx context.Context, err *error) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		*err = nil
		p, failed := c.take()
		if failed != nil {
			*err = failed
			return
		}
		defer p.busy.Store(false)
		for {
			m, failed := c.receive(ctx, p)
			if failed != nil && !inOrder(failed) {
				*err = failed
			}
			if failed != nil || !yield(m) {
				return
			}
		}
	}
}

// inOrder reports whether the peer ended the connection because it was done.
func inOrder(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	if end, ok := errors.AsType[*CloseError](err); ok && end.Remote {
		return end.Code == CloseNormal || end.Code == CloseGoingAway || end.Code == CloseNoStatus
	}
	return false
}

// cutOff is an error of a connection that ended within a message: what is an end otherwise comes too early then.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return err
}

// NextReader waits for the next message of a connection whose handler says Pull, and of those of [Dial], and returns its kind and a
// reader of its data as it arrives, so that it may be larger than memory, if Options.MaxMessage lets it. The context is that of the
// reader, too; when it is done nothing is lost, and another NextReader goes on with the next message, unless this one is compressed: then
// the connection ends. The reader ends with io.EOF; it belongs to one goroutine, until the next call of NextReader, Receive or Messages,
// which passes over what was not read. The errors are those of [Conn.Receive], and io.ErrUnexpectedEOF around them when the message is
// not complete.
func (c *Conn) NextReader(ctx context.Context) (Opcode, io.Reader, error) {
	p, err := c.take()
	if err != nil {
		return 0, nil, err
	}
	defer p.busy.Store(false)
	if err := c.passOver(ctx, p); err != nil {
		return 0, nil, err
	}
	if p.within { // Receive was interrupted
		p.piece, p.raw = p.raw, nil
	} else if err := c.next(ctx, p); err != nil {
		return 0, nil, err
	}
	r := &reader{c: c, p: p, ctx: ctx}
	p.open = r
	kind := Opcode(p.tag & wire.TagOpcode)
	if p.tag&wire.TagDeflated != 0 {
		r.inflating = &inflating{raw: r, f: c.codec.Inflate(r, kind)}
		return kind, r.inflating, nil
	}
	return kind, r, nil
}

// take makes the caller the one who asks.
func (c *Conn) take() (*pull, error) {
	switch {
	case c.pull == nil:
		return nil, session.ErrNoPull
	case !c.pull.busy.CompareAndSwap(false, true):
		return nil, session.ErrReceiving
	}
	return c.pull, nil
}

// receive puts a whole message together.
func (c *Conn) receive(ctx context.Context, p *pull) (Message, error) {
	if err := c.passOver(ctx, p); err != nil {
		return Message{}, err
	}
	for {
		if err := c.next(ctx, p); err != nil {
			if p.within {
				err = cutOff(err)
			}
			return Message{}, err
		}
		last, kind := p.tag&wire.TagLast != 0, Opcode(p.tag&wire.TagOpcode)
		if last && len(p.raw) == 0 && p.tag&wire.TagDeflated == 0 {
			p.within = false
			return Message{kind, p.piece}, nil
		}
		p.raw = append(p.raw, p.piece...)
		if !last {
			continue
		}
		p.within = false
		data := p.raw
		p.raw = p.raw[:0]
		if p.tag&wire.TagDeflated != 0 {
			return c.inflated(p, data, kind)
		}
		return Message{kind, data}, nil
	}
}

// inflated is the message for which the data of a compressed one stands.
func (c *Conn) inflated(p *pull, data []byte, kind Opcode) (Message, error) {
	out, err := c.codec.AppendInflated(p.whole[:0], data, kind)
	if err != nil {
		return Message{}, c.fail(err)
	}
	p.whole = out
	return Message{kind, out}, nil
}

// fail ends the connection because of what the peer sent, and tells it so.
func (c *Conn) fail(err error) error {
	if bad, ok := errors.AsType[*CloseError](err); ok && !bad.Remote {
		c.end(bad.Code, bad.Reason, bad)
	}
	return err
}

// next waits for the next piece of a message. Pings and pongs that come meanwhile are given to the handler.
func (c *Conn) next(ctx context.Context, p *pull) error {
	for {
		piece, err := c.s.Load().Receive(ctx)
		if err != nil {
			return err
		}
		p.piece = piece[1:]
		switch tag := piece[0]; Opcode(tag & wire.TagOpcode) {
		case OpPing:
			if f := c.e.h.Ping; f != nil {
				f(c, p.piece)
			}
		case OpPong:
			if f := c.e.h.Pong; f != nil {
				f(c, p.piece)
			}
		default:
			p.tag, p.within = tag, true
			return nil
		}
	}
}

// passOver forgets the message before: it reads the rest of a stream that nobody will read, and does not keep much memory while the next
// one is awaited.
func (c *Conn) passOver(ctx context.Context, p *pull) error {
	if cap(p.raw) > keptBytes && len(p.raw) == 0 {
		p.raw = nil
	}
	if cap(p.whole) > keptBytes {
		p.whole = nil
	}
	r := p.open
	if r == nil {
		return nil
	}
	r.ctx = ctx
	if r.inflating != nil { // the context has to be complete
		if _, err := io.Copy(io.Discard, r.inflating); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// reader gives the pieces of one message.
type reader struct {
	c         *Conn
	p         *pull
	ctx       context.Context
	inflating *inflating // what reads from it, or nil
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	p := r.p
	if p.open != r {
		return 0, io.EOF
	}
	for len(p.piece) == 0 {
		if p.tag&wire.TagLast != 0 {
			p.open, p.within = nil, false
			return 0, io.EOF
		}
		if err := r.c.next(r.ctx, p); err != nil {
			return 0, cutOff(err)
		}
	}
	n := copy(b, p.piece)
	p.piece = p.piece[n:]
	return n, nil
}

// inflating is a reader of a compressed message.
type inflating struct {
	raw *reader
	f   *wire.Inflater
}

// Read implements io.Reader.
func (r *inflating) Read(b []byte) (int, error) {
	n, err := r.f.Read(b)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	c := r.raw.c
	if errors.Is(err, ErrClosed) { // with whatever cause
		return n, err
	}
	if bad, ok := errors.AsType[*CloseError](err); ok && !bad.Remote {
		return n, c.fail(bad)
	}
	c.s.Load().Abort(err) // what was not inflated is missing for good
	return n, err
}
