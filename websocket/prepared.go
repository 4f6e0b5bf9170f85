package websocket

import (
	"sync/atomic"

	"github.com/sluice-push/sluice/websocket/wire"
)

// Prepared is a message for many connections. Its frame is made once for each way in which they were agreed on, plain or compressed, when
// the first of them needs it, and shared by all others. It may be sent to any connections, by any number of goroutines at a time, and
// left to the garbage collector.
type Prepared struct {
	op       Opcode
	data     []byte
	variants [wire.Variants]atomic.Pointer[[]byte]
}

// Prepare makes a message, OpText or OpBinary, for many connections. With text the caller vouches for UTF-8. The data must not be
// changed any more.
func Prepare(op Opcode, data []byte) *Prepared { return &Prepared{op: op, data: data} }

// SendPrepared is [Conn.Send] for a message that goes to many: nothing is encoded or allocated for each of them. A client masks, and a
// connection with a compression context refers to what it has sent, so these encode it like any other message.
func (c *Conn) SendPrepared(p *Prepared) error {
	variant := c.codec.Variant(len(p.data))
	if variant < 0 {
		return c.Send(p.op, p.data)
	}
	frame := p.variants[variant].Load()
	if frame == nil {
		made, err := c.codec.AppendMessage(nil, p.op, p.data)
		if err != nil {
			return c.Send(p.op, p.data) // which says why
		}
		p.variants[variant].CompareAndSwap(nil, &made)
		frame = p.variants[variant].Load()
	}
	return c.s.Load().SendAs((*framed)(c), *frame)
}

// framed sends what is a frame already.
type framed Conn

func (c *framed) AppendEncode(dst, frame []byte) ([]byte, error) {
	if err := (*Conn)(c).mayFrame(); err != nil {
		return dst, err
	}
	return append(dst, frame...), nil
}

func (c *framed) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, (*Conn)(c).mayFrame() }

// mayFrame says why no frame of a message may be sent.
func (c *Conn) mayFrame() error {
	if c.frag != nil {
		return ErrWriterOpen
	}
	return asClosed(c.codec.Sendable())
}
