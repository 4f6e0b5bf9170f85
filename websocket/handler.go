package websocket

import (
	"errors"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Handler holds the functions that a server or a client calls. Any function may be nil. For one connection, Open, Message, Ping, Pong, Tick and
// Close are called one after the other: Open first, after the handshake, and Close last, exactly once if Open was called. A function may block,
// which delays its own connection only. A panic ends that connection and no other.
type Handler struct {
	// Open is called when the handshake is done. The request is nil on a client. An error closes the connection: with the code and reason of a
	// *[CloseError], otherwise with code 1008 and no reason.
	Open func(c *Conn, r *Request) error

	// Pull makes messages wait until the caller fetches them: see [Conn.Receive]. Message must be nil then. Ping and Pong are called by the
	// goroutine that fetches messages.
	Pull bool

	// Message is called with each message. Its Data is borrowed until the function returns; until then the function may change it.
	Message func(c *Conn, m Message)

	// Ping and Pong are called with the payloads of pings and pongs, which are borrowed. A ping has been answered by then, unless
	// Options.NoPong.
	Ping func(c *Conn, payload []byte)
	Pong func(c *Conn, payload []byte)

	// Tick is called every Options.Ping, or every Options.Session.TickInterval, between messages.
	Tick func(c *Conn)

	// Writable is called when there is room again, after the session's TryWrite took fewer frames than it was given: see session.Handler.
	Writable func(c *Conn)

	// Drain is called for each connection when the server or client is shut down, after Open has returned. It should call [Conn.Close],
	// now or soon. If it is nil, connections are closed with code 1001.
	Drain func(c *Conn)

	// Close is called when the connection has ended: see session.CloseInfo for the cause, and [CodeOf] for the close code.
	Close func(c *Conn, info *session.CloseInfo)
}

// engine is the part that servers and clients share.
type engine struct {
	h       Handler
	o       Options
	e       *wire.Endpoint
	serving *session.Handler // for connections whose handshake is done
}

func newEngine(h *Handler, o *Options) *engine {
	e := new(engine)
	if h != nil {
		e.h = *h
	}
	if o != nil {
		e.o = *o
	}
	if e.h.Pull && e.h.Message != nil {
		panic("websocket: a handler has either Pull or Message")
	}
	e.e = e.o.endpoint(&e.h)
	e.serving = e.handler()
	return e
}

// handler returns the session handler of connections whose handshake is done.
func (e *engine) handler() *session.Handler {
	h := &session.Handler{Pull: e.h.Pull, Drain: e.drain, Close: e.closed}
	if !e.h.Pull {
		h.Message = e.message
	}
	if e.o.Ping > 0 || e.h.Tick != nil {
		h.Tick = e.tick
	}
	if e.h.Writable != nil {
		h.Writable = func(s *session.Session) { e.h.Writable(connOf(s)) }
	}
	return h
}

// connOf returns the connection of a session.
func connOf(s *session.Session) *Conn { return s.Value().(*Conn) }

// open gives the session its handler and calls the user's Open.
func (e *engine) open(c *Conn, r *Request) error {
	c.stage.Store(opening)
	c.s.Load().SetHandler(e.serving) // from now on another goroutine may call Drain
	var err error
	if e.h.Open != nil {
		err = e.h.Open(c, r)
	}
	if c.stage.Swap(opened) == drainPending && err == nil {
		e.h.Drain(c)
	}
	if err != nil {
		code, reason := ClosePolicyViolation, ""
		if end, ok := errors.AsType[*CloseError](err); ok {
			code, reason = end.Code, end.Reason
		}
		c.end(code, reason, err)
	}
	return err
}

// message handles a message that the codec returned. Release lets the codec free its memory until the next message.
func (e *engine) message(s *session.Session, data []byte) {
	c := connOf(s)
	switch op := c.codec.Opcode(); {
	case op == OpPing:
		if e.h.Ping != nil {
			e.h.Ping(c, data)
		}
	case op == OpPong:
		if e.h.Pong != nil {
			e.h.Pong(c, data)
		}
	case e.h.Message != nil:
		e.h.Message(c, Message{Op: op, Data: data})
	}
	c.codec.Release()
}

// tick sends a ping and calls the user's Tick.
func (e *engine) tick(s *session.Session) {
	c := connOf(s)
	if e.o.Ping > 0 {
		_ = c.Ping(nil) // if the connection has ended, Close is called
	}
	if e.h.Tick != nil {
		e.h.Tick(c)
	}
}

func (e *engine) drain(s *session.Session) {
	c := connOf(s)
	switch {
	case e.h.Drain == nil:
		_ = c.Close(CloseGoingAway, "")
	case !c.stage.CompareAndSwap(opening, drainPending) && c.stage.Load() != drainPending:
		e.h.Drain(c)
	}
}

func (e *engine) closed(s *session.Session, info *session.CloseInfo) {
	c := connOf(s)
	if e.h.Close != nil {
		e.h.Close(c, info)
	}
}
