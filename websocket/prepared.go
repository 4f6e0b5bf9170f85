package websocket

import (
	"iter"
	"sync/atomic"

	"github.com/sluice-push/sluice/session"
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
	frame := p.frameFor(c)
	if frame == nil {
		return c.Send(p.op, p.data)
	}
	return c.s.Load().SendAs((*framed)(c), frame)
}

// frameFor returns the frame for a connection, nil if that has to encode the message by itself, or cannot, which Send says.
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

// broadcastSize is for how many connections Broadcast collects frames.
const broadcastSize = 128

// Broadcast is [Conn.SendPrepared] for many connections, each of which should occur once. It takes less time than a call for each. Where that
// call would return an error, failed is called instead, after the next hundred connections or so were written to; it may be nil. Under the Wait
// policy Broadcast goes at the pace of the slowest.
//
//	websocket.Broadcast(websocket.Prepare(websocket.OpText, news), srv.Conns(), nil)
func Broadcast(p *Prepared, to iter.Seq[*Conn], failed func(*Conn, error)) {
	letters := make([]session.Letter, 0, broadcastSize)
	for c := range to {
		frame := p.frameFor(c)
		if frame == nil {
			if err := c.Send(p.op, p.data); err != nil && failed != nil {
				failed(c, err)
			}
			continue
		}
		letters = append(letters, session.Letter{Session: c.s.Load(), As: (*framed)(c), Msg: frame})
		if len(letters) == broadcastSize {
			letters = sendLetters(letters, failed)
		}
	}
	sendLetters(letters, failed)
}

// sendLetters sends letters to connections and returns their memory.
func sendLetters(letters []session.Letter, failed func(*Conn, error)) []session.Letter {
	session.SendAll(letters)
	for i := range letters {
		if err := letters[i].Err; err != nil && failed != nil {
			failed((*Conn)(letters[i].As.(*framed)), err)
		}
	}
	clear(letters)
	return letters[:0]
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
