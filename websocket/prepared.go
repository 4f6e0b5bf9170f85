package websocket

import (
	"iter"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Prepared is a message for many connections. Its frame is made once for each form that connections have agreed on, plain or compressed, when
// the first connection needs that form. Any number of goroutines may send it to any connections at the same time. It needs no release.
type Prepared struct {
	op       Opcode
	data     []byte
	variants [wire.Variants]atomic.Pointer[[]byte]
}

// Prepare returns a message, OpText or OpBinary, for many connections. The caller guarantees that text is UTF-8. The data must not change
// afterwards.
func Prepare(op Opcode, data []byte) *Prepared { return &Prepared{op: op, data: data} }

// SendPrepared is [Conn.Send] for a prepared message: it neither encodes nor allocates for each connection. Two kinds of connection still encode
// the message themselves: clients, which mask frames, and connections with a compression context, which refer to earlier messages.
func (c *Conn) SendPrepared(p *Prepared) error {
	frame := p.frameFor(c)
	if frame == nil {
		return c.Send(p.op, p.data)
	}
	return c.s.Load().SendAs((*frameEncoder)(c), frame)
}

// frameFor returns the shared frame for a connection. The result is nil if the connection must encode the message itself, or cannot send; Send
// then returns the error.
func (p *Prepared) frameFor(c *Conn) []byte {
	variant := c.codec.Variant(len(p.data))
	if variant < 0 {
		return nil
	}
	frame := p.variants[variant].Load()
	if frame == nil {
		made, err := c.codec.AppendMessage(nil, p.op, p.data)
		if err != nil {
			return nil
		}
		p.variants[variant].CompareAndSwap(nil, &made)
		frame = p.variants[variant].Load()
	}
	return *frame
}

// broadcastSize is the number of connections for which Broadcast collects frames before it writes them.
const broadcastSize = 128

// Broadcast is [Conn.SendPrepared] for many connections, each of which should occur once. It is faster than one call for each connection. If a
// send fails, failed is called with the error, after up to 128 connections more have been written to; failed may be nil. Under the policy
// session.Wait, Broadcast is as slow as its slowest connection.
//
//	websocket.Broadcast(websocket.Prepare(websocket.OpText, news), srv.Conns(), nil)
func Broadcast(p *Prepared, to iter.Seq[*Conn], failed func(*Conn, error)) {
	items := make([]session.SendItem, 0, broadcastSize)
	for c := range to {
		frame := p.frameFor(c)
		if frame == nil {
			if err := c.Send(p.op, p.data); err != nil && failed != nil {
				failed(c, err)
			}
			continue
		}
		items = append(items, session.SendItem{Session: c.s.Load(), As: (*frameEncoder)(c), Msg: frame})
		if len(items) == broadcastSize {
			items = sendItems(items, failed)
		}
	}
	sendItems(items, failed)
}

// sendItems sends a batch of frames, calls failed for each error, and returns the slice, empty, for reuse.
func sendItems(items []session.SendItem, failed func(*Conn, error)) []session.SendItem {
	session.SendAll(items)
	for i := range items {
		if err := items[i].Err; err != nil && failed != nil {
			failed((*Conn)(items[i].As.(*frameEncoder)), err)
		}
	}
	clear(items)
	return items[:0]
}

// frameEncoder is the encoder of bytes that are a frame already.
type frameEncoder Conn

func (c *frameEncoder) AppendEncode(dst, frame []byte) ([]byte, error) {
	if err := (*Conn)(c).mayFrame(); err != nil {
		return dst, err
	}
	return append(dst, frame...), nil
}

func (c *frameEncoder) AppendHeader(dst, _ []byte) ([]byte, error) { return dst, (*Conn)(c).mayFrame() }

// mayFrame returns the reason why no message frame may be sent now, or nil.
func (c *Conn) mayFrame() error {
	if c.frag != nil {
		return ErrWriterOpen
	}
	return asClosed(c.codec.Sendable())
}
