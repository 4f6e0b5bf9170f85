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

// This file is the pull side: messages that the caller fetches. The session delivers pieces as they arrive, each with a tag (see package wire).
// The goroutine that fetches joins them to messages or streams.

// pull is the state of fetching messages. The goroutine that has set busy owns the other fields.
type pull struct {
	busy   atomic.Bool
	tag    byte    // of the current message
	within bool    // a message is current: some of its pieces have been fetched
	piece  []byte  // the unread rest of the newest piece
	raw    []byte  // the pieces of the current message, joined
	whole  []byte  // the inflated message
	open   *reader // the reader of the current message
}

// keptBytes is the largest capacity of a buffer that is kept for the next message.
const keptBytes = 64 << 10

// Receive waits for the next message. The connection needs Handler.Pull, or is one of [Dial]. The message's Data is valid
// until the next call. Receive must not be called by a function of the handler.
//
// If the peer closed the connection, the error is a *[CloseError], which wraps io.EOF; within a message, the error also wraps
// io.ErrUnexpectedEOF. If the connection ended otherwise, the error is [ErrClosed] with the cause. If ctx is done, the error wraps the context's
// error and no message is lost: the next call returns it. The error session.ErrReceiving says that another goroutine is receiving, and
// session.ErrNoPull that a handler gets the messages.
func (c *Conn) Receive(ctx context.Context) (Message, error) {
	p, err := c.take()
	if err != nil {
		return Message{}, err
	}
	defer p.busy.Store(false)
	return c.receive(ctx, p)
}

// Messages iterates over the messages of a connection with Handler.Pull, or one of [Dial]. Each message is valid until the next iteration.
// During the iteration *err is nil. It stays nil in two cases: the peer closed the connection with code 1000, 1001 or none, or the caller broke
// out of the loop, which leaves the connection open. Otherwise *err becomes one of the errors of [Conn.Receive].
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
			if failed != nil && !isOrderly(failed) {
				*err = failed
			}
			if failed != nil || !yield(m) {
				return
			}
		}
	}
}

// isOrderly reports whether err is an orderly close by the peer: with code 1000, 1001 or none, between two messages.
func isOrderly(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	if end, ok := errors.AsType[*CloseError](err); ok && end.Remote {
		return end.Code == CloseNormal || end.Code == CloseGoingAway || end.Code == CloseNoStatus
	}
	return false
}

// cutOff adds io.ErrUnexpectedEOF to an io.EOF, for a connection that ended within a message.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return err
}

// NextReader waits for the next message and returns its kind and a reader of its data as it arrives, so that the message may be larger than
// memory, up to Options.MaxMessage. The connection needs Handler.Pull, or is one of [Dial].
//
// The reader uses ctx too. If ctx is done, no data is lost, and another NextReader goes on with the next message. A compressed message is the
// exception: then the connection ends. The reader belongs to one goroutine and ends with io.EOF. The next call of NextReader, Receive or
// Messages skips the unread rest. The errors are those of [Conn.Receive], and wrap io.ErrUnexpectedEOF if the message is incomplete.
func (c *Conn) NextReader(ctx context.Context) (Opcode, io.Reader, error) {
	p, err := c.take()
	if err != nil {
		return 0, nil, err
	}
	defer p.busy.Store(false)
	if err := c.skipRest(ctx, p); err != nil {
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

// take claims the right to fetch messages. The caller releases it with busy.
func (c *Conn) take() (*pull, error) {
	switch {
	case c.pull == nil:
		return nil, session.ErrNoPull
	case !c.pull.busy.CompareAndSwap(false, true):
		return nil, session.ErrReceiving
	}
	return c.pull, nil
}

// receive returns the next whole message.
func (c *Conn) receive(ctx context.Context, p *pull) (Message, error) {
	if err := c.skipRest(ctx, p); err != nil {
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

// inflated returns the message that the compressed data stands for.
func (c *Conn) inflated(p *pull, data []byte, kind Opcode) (Message, error) {
	out, err := c.codec.AppendInflated(p.whole[:0], data, kind)
	if err != nil {
		return Message{}, c.fail(err)
	}
	p.whole = out
	return Message{kind, out}, nil
}

// fail ends the connection with the close code of err if the peer broke a rule. It returns err.
func (c *Conn) fail(err error) error {
	if bad, ok := errors.AsType[*CloseError](err); ok && !bad.Remote {
		c.end(bad.Code, bad.Reason, bad)
	}
	return err
}

// next waits for the next piece of a message. It passes pings and pongs to the handler.
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

// skipRest skips the unread rest of the previous message. It also drops large buffers, so that a waiting connection does not hold them.
func (c *Conn) skipRest(ctx context.Context, p *pull) error {
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
	if r.inflating != nil { // later messages may refer to this one, so it is inflated to its end
		if _, err := io.Copy(io.Discard, r.inflating); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// reader reads the payload of one message.
type reader struct {
	c         *Conn
	p         *pull
	ctx       context.Context
	inflating *inflating // the reader that inflates this one's data, or nil
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

// inflating reads a compressed message.
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
	if errors.Is(err, ErrClosed) { // the connection has ended already
		return n, err
	}
	if bad, ok := errors.AsType[*CloseError](err); ok && !bad.Remote {
		return n, c.fail(bad)
	}
	c.s.Load().Abort(err) // the compression context misses the rest of this message
	return n, err
}
