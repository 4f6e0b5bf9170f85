// Package sessionconn holds what the transports share whose connections are sessions of package session: WebSocket and TCP. Such a transport
// embeds a [Transport], and the type of its connections embeds a [Conn], which is the carrier of the client.
//
// A reply is written by the session, which queues what the socket does not take; while much is queued, the session reads no more commands. Frames
// of the hub go straight to the socket, from the goroutine that serves the hub's subscriptions. What the socket does not take stays in the hub's
// log.
package sessionconn

import (
	"errors"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/session"
)

// Conn is one connection, the carrier of its client: pass the Conn to Arrive. It is the same type for all transports, so that batched writes of
// the hub may mix their clients. The methods of a gateway.Carrier may be called concurrently once Start or Drain was called.
type Conn struct {
	gateway.Client

	session atomic.Pointer[session.Session] // set by Start or Drain, before anything is received
	listens atomic.Bool                     // a client that only listens is told that it is connected
}

// Value is the type of a transport's connections. It embeds a Conn, and is the value of the session.
type Value interface {
	// EndSession sends a frame, which may be nil, tells the client why the connection ends, in the way of the wire, and ends the session. It never waits.
	EndSession(s *session.Session, last []byte, d push.Disconnect)
	// Carrier is that of the embedded Conn.
	Carrier() *Conn
}

// Carrier returns c: it is how the embedded Conn of a connection is found.
func (c *Conn) Carrier() *Conn { return c }

// Of returns the connection of a session, or nil if the session has none.
func Of(s *session.Session) *Conn {
	if v, ok := s.Value().(Value); ok {
		return v.Carrier()
	}
	return nil
}

// Start gives the connection its session and begins the heartbeat. The session's handler calls it in Open.
func (c *Conn) Start(s *session.Session) {
	c.session.Store(s)
	c.Open()
}

// IsStarted reports whether Start or Drain was called.
func (c *Conn) IsStarted() bool { return c.session.Load() != nil }

// Listens reports whether a client that only listens takes frames of the hub.
func (c *Conn) Listens() bool { return c.listens.Load() }

// Listen lets a client that only listens take frames of the hub from now on: the client knows that it is connected.
func (c *Conn) Listen() {
	c.listens.Store(true)
	c.Writable()
}

// Drain sends the client elsewhere. The session's handler calls it in Drain, which may come before Open; Open is then not called any more.
func (c *Conn) Drain(s *session.Session) {
	c.session.Store(s)
	c.Disconnect(push.DisconnectShutdown)
}

// EndingOf says how a connection ended that the server has not ended with a code.
func EndingOf(info *session.CloseInfo) gateway.Ending {
	switch {
	case info.By == session.ByLocal:
		return gateway.EndedByShutdown
	case errors.Is(info.Err, session.ErrTimeout):
		return gateway.EndedByTimeout
	default:
		return gateway.EndedByClient
	}
}

// TryWrite implements hub.Carrier.
func (c *Conn) TryWrite(frames []hub.Frame) int {
	if c.Kind().Way() == gateway.OneWay && !c.listens.Load() {
		return 0
	}
	var few [32][]byte // a client of more channels that change all at once is worth the memory
	raw := few[:0]
	for i := range frames {
		raw = append(raw, frames[i].Bytes)
	}
	taken, err := c.session.Load().TryWrite(raw)
	if err != nil {
		return 0
	}
	return taken
}

// TryWriteAll implements hub.BatchWriter.
func (c *Conn) TryWriteAll(offers []hub.Offer) {
	var room [64]session.Offer
	for len(offers) > 0 {
		some, mine := offers[:min(len(offers), len(room))], room[:0]
		offers = offers[len(some):]
		for i := range some {
			if inBatch(some[i].Carrier) {
				of := some[i].Carrier.(*Conn) //nolint:forcetypeassert // inBatch has looked
				mine = append(mine, session.Offer{Session: of.session.Load(), Frame: some[i].Frame.Bytes})
			}
		}
		session.TryWriteAll(mine)
		for i := range some {
			if o := &some[i]; inBatch(o.Carrier) {
				o.Taken, mine = mine[0].Taken, mine[1:]
			} else {
				o.Taken = o.Carrier.TryWrite([]hub.Frame{*o.Frame}) == 1
			}
		}
	}
}

// inBatch reports whether a carrier takes part in batched writes: a client that only listens may not be ready for them yet.
func inBatch(c hub.Carrier) bool {
	of, ok := c.(*Conn)
	return ok && of.Kind().Way() != gateway.OneWay
}

// Reply implements gateway.Carrier.
func (c *Conn) Reply(message []byte) error { return c.session.Load().Send(message) }

// Ping implements gateway.Carrier.
func (c *Conn) Ping() bool {
	taken, err := c.session.Load().TryWrite([][]byte{c.Kind().Ping()})
	return err == nil && taken == 1
}

// End implements gateway.Carrier.
func (c *Conn) End(last []byte, d push.Disconnect) {
	if c.Kind().Way() == gateway.OneWay && !c.listens.Load() {
		last = nil
	}
	s := c.session.Load()
	s.Value().(Value).EndSession(s, last, d) //nolint:forcetypeassert // a session with a Conn has such a value
}

// Abort implements gateway.Carrier.
func (c *Conn) Abort(d push.Disconnect) { c.session.Load().Abort(d) }

// Queued implements gateway.Carrier.
func (c *Conn) Queued() int { return c.session.Load().Queued() }
