package gateway

import (
	"errors"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/gateway/expiry"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// Carrier is the connection of one client. It moves bytes and knows no command. A carrier embeds its [Client], so that both are one object: the Client
// provides Disconnect, and the hub writes to the carrier without a step between.
//
// A method that never waits may be called with the lock of the hub's session held. Nothing but the transport itself calls a carrier before
// [Client.Open]; from then on all methods may be called concurrently, also after the connection has ended.
type Carrier interface {
	hub.Carrier

	// Reply sends one encoded reply, and waits for room while the client does not read. An error means that the connection has ended. The bytes
	// are borrowed until Reply returns.
	Reply(message []byte) error
	// Ping offers the server's ping and reports whether the connection took it. It never waits.
	Ping() bool
	// End ends the connection. Before that the client gets what waits, last, which is a frame or nil, and why the connection ends, where the wire can tell
	// it. A one-way client that has no answer to its connect request yet does not get last. End never waits. The client calls at most one of End and Abort,
	// once.
	End(last []byte, d push.Disconnect)
	// Abort ends the connection at once and drops what waits to be written. It never waits.
	Abort(d push.Disconnect)
	// Queued returns how many bytes wait to be written.
	Queued() int
}

// Way says how the clients of a kind send commands.
type Way uint8

// The ways.
const (
	TwoWay   Way = iota // on their connection
	OneWay              // not at all: the request with which they connect is all they send
	Emulated            // in requests beside their connection, see [Gateway.Emulate]
)

// Kind is what all clients of a transport that speak one form have in common.
type Kind struct {
	encoder *Encoder
	way     Way
	ping    []byte
	endings endings
}

// NewKind returns a kind whose frames an encoder makes. Clients of one kind share frames.
func NewKind(e Encoder, way Way) *Kind {
	return &Kind{encoder: &e, way: way, ping: e.AppendReply(nil, &protocol.Reply{}), endings: newEndings()}
}

// Way returns how the clients send commands.
func (k *Kind) Way() Way { return k.way }

// Ping returns the frame of the server's ping, an empty reply. The caller must not change it.
func (k *Kind) Ping() []byte { return k.ping }

// Encoder returns what makes the kind's frames.
func (k *Kind) Encoder() *Encoder { return k.encoder }

// Stats returns how the connections of clients of the kind ended. The transport adds the rest.
func (k *Kind) Stats() TransportStats { return k.endings.stats() }

// SumStats adds up the Stats of kinds.
func SumStats(kinds []*Kind) TransportStats {
	sum := TransportStats{Disconnected: map[uint32]uint64{}}
	for _, k := range kinds {
		s := k.Stats()
		for code, n := range s.Disconnected {
			sum.Disconnected[code] += n
		}
		sum.TimedOut += s.TimedOut
		sum.Left += s.Left
		sum.Panics += s.Panics
	}
	return sum
}

// Client is the session of one client, whatever carries it: its commands, limits, heartbeat and identity, and its session in the hub.
//
// The transport calls Arrive first. If the client is admitted, it calls Arrived, once, when its Clients visits the client or the client is gone;
// Open when the carrier's methods may be called; Message and Writable, or Connect; and in the end Closed or Refused, once, whatever
// happens in between.
type Client struct {
	// Request is the HTTP request with which the client came, for Authenticate. A transport without such requests makes one of what it knows: the
	// remote address, the state of TLS, metadata as headers. The transport sets it before Open. It is released when the client is identified.
	Request *http.Request

	gateway *Gateway
	kind    *Kind
	carrier Carrier
	addr    netip.Addr // as it was admitted
	from    *caller
	since   int64 // when the connection was made, by the gateway's clock, as all times below

	hub       atomic.Pointer[hub.Session] // set when the client has connected
	connected int64                       // when it did; set before hub is

	identity atomic.Pointer[Identity]    // set before hub is; replaced by a refresh
	routing  atomic.Pointer[routing]     // nil until the client has said who it is, and if Options.Routes is nil
	expiry   atomic.Pointer[expiry.Ends] // nil until something of the client expires

	held  atomic.Bool  // the hub's frames wait until the client has the answer to its connect command
	asked atomic.Bool  // a one-way client has sent its connect request
	ended atomic.Bool  // how the connection ends is counted
	told  atomic.Bool  // see Told
	heard atomic.Int64 // when something last came from the client

	released atomic.Bool              // the connection has ended
	answered atomic.Bool              // the connect command has its answer; the carrier of a one-way client takes that before all else
	counted  atomic.Pointer[Identity] // whose user has the client among its sessions; nil: none

	// Owned by the goroutine that handles the client's messages.
	commands, bytes admission.Bucket
	tooFast         bool // the frame that is handled exceeds Options.BytesPerSession

	inbox *clientInbox // of emulated clients; nil for others

	beat beat
}

// Arrive admits a client of a kind that comes with a request, or returns why it cannot be admitted, which is a *[NotAdmitted]. Of the request it
// reads the address and the header.
func (c *Client) Arrive(g *Gateway, k *Kind, carrier Carrier, r *http.Request) error {
	c.gateway, c.kind, c.carrier, c.addr = g, k, carrier, g.addressOf(r)
	if refused := g.admit(c.addr); refused != nil {
		g.addRoutes(refused, r)
		return refused
	}
	c.from, c.since = g.callerOf(c.addr), g.clock()
	if k.way == Emulated {
		g.emulation.open(c)
	}
	return nil
}

// SetKind changes the kind of a client to another one of the same transport and way, before Open: a handshake may tell more than its request.
func (c *Client) SetKind(k *Kind) { c.kind = k }

// Kind returns the client's kind.
func (c *Client) Kind() *Kind { return c.kind }

// Arrived ends the arrival of an admitted client: its transport has it, so that Shutdown finds it, or it is gone.
func (c *Client) Arrived() { c.gateway.arriving.Done() }

// Open begins the heartbeat, which ends the connection if the client does not connect in time.
func (c *Client) Open() {
	c.gateway.agenda.enter(c, c.since+c.gateway.options.ConnectTimeout.Milliseconds()+1)
}

// Message handles a frame of commands. Calls for one client do not overlap. The frame is borrowed until Message returns.
func (c *Client) Message(frame []byte) {
	c.heard.Store(c.gateway.clock())
	c.receives(frame)
	for {
		message, rest, err := c.kind.encoder.Form.Next(frame)
		if err != nil {
			c.bad(err.Error())
			return
		}
		if message == nil || !c.command(message) {
			return
		}
		frame = rest
	}
}

// Writable tells the hub that the carrier takes frames again.
func (c *Client) Writable() {
	if h := c.hub.Load(); h != nil && !c.held.Load() {
		h.Flush()
	}
}

// Closed releases what the client has, and counts how its connection ended unless the server ended it.
func (c *Client) Closed(how Ending) {
	if !c.ended.Swap(true) {
		c.kind.endings.count(how)
	}
	c.release()
}

// Refused releases what a client has that was admitted and then refused. It is not counted as an end.
func (c *Client) Refused() {
	c.ended.Store(true)
	c.release()
}

func (c *Client) release() {
	c.released.Store(true) // before what follows is looked at: a connect command may still be carried out
	if h := c.hub.Load(); h != nil {
		h.Close()
	}
	c.forgetUser()
	if c.inbox != nil {
		c.gateway.emulation.close(c)
	}
	c.gateway.agenda.leave(c)
	c.gateway.leave(c.addr)
}

// Recovered is told what recover returned in a goroutine that handled what the client sent. It reports whether that was a panic, which ends the
// client and is counted and logged.
func (c *Client) Recovered(v any) bool {
	if v == nil {
		return false
	}
	c.kind.endings.panics.Add(1)
	c.gateway.options.Logger.Error("panic in the handling of a client", "remote", c.addr, "panic", v, "stack", string(debug.Stack()))
	c.Disconnect(push.DisconnectServerError)
	return true
}

// Disconnect implements hub.Carrier. It may be called concurrently, any number of times; the first call counts. A one-way client stays in the hub
// until it is told: it may be in the middle of its subscriptions.
func (c *Client) Disconnect(d push.Disconnect) { c.disconnect(d, nil) }

// disconnect is Disconnect, with a push that the client gets before; nil is none. It reports whether the call is the first.
func (c *Client) disconnect(d push.Disconnect, last *protocol.Push) bool {
	if c.ended.Swap(true) {
		return false
	}
	c.kind.endings.disconnected.Add(uint32(d.Code))
	c.forgetUser() // a client that is told to connect again may do so before this connection is closed
	var frame []byte
	if last != nil {
		frame = c.kind.encoder.AppendPush(nil, last)
	}
	c.carrier.End(frame, d)
	if h := c.hub.Load(); h != nil && c.kind.way != OneWay {
		c.gateway.endSoon(h)
	}
	return true
}

// cut ends the connection without a goodbye, which the client would not read.
func (c *Client) cut(d push.Disconnect) {
	if !c.ended.Swap(true) {
		c.kind.endings.disconnected.Add(uint32(d.Code))
		c.forgetUser()
		c.carrier.Abort(d)
	}
}

// endSoon ends a client in the hub that may take its time to end its connection, so that it is not present any more. It does not wait: the
// caller may have the session's lock. When the gateway shuts down, all clients end in the hub with their connections.
func (g *Gateway) endSoon(h *hub.Session) { g.goUnlessClosing(h.Close) }

// goUnlessClosing runs a function in a goroutine for which Shutdown waits, and reports whether it does: not when Shutdown has begun.
func (g *Gateway) goUnlessClosing(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closing {
		g.leaving.Go(f)
	}
	return !g.closing
}

// replyScratch is the memory in which a reply is encoded. The copy of the reply keeps that of the caller on its stack: an encoder is called
// through an interface.
type replyScratch struct {
	reply protocol.Reply
	buf   []byte
}

// keptReply is the largest buffer that is kept for replies to come.
const keptReply = 16 << 10

// reply sends an answer. It waits while the client does not read, which is what keeps it from sending more commands. An error says
// that the connection is over.
func (c *Client) reply(r *protocol.Reply) error {
	pool := &c.gateway.buffers
	scratch, ok := pool.Get().(*replyScratch)
	if !ok {
		scratch = new(replyScratch)
	}
	scratch.reply = *r
	scratch.buf = c.kind.encoder.Form.AppendReply(scratch.buf[:0], &scratch.reply)
	err := c.carrier.Reply(scratch.buf)
	scratch.reply = protocol.Reply{}
	if cap(scratch.buf) <= keptReply {
		pool.Put(scratch)
	}
	if err != nil {
		return &gone{err}
	}
	return nil
}

// gone is why an answer could not be sent: the connection has ended.
type gone struct{ error }

// refuse answers a command with an error, or ends the connection when that is what the error says. It reports whether the
// connection goes on.
func (c *Client) refuse(id uint32, err error) bool {
	var d push.Disconnect
	var e *push.Error
	if over := new(gone); errors.As(err, &over) || c.gateway.ctx.Err() != nil {
		return false
	}
	switch {
	case errors.As(err, &d):
		c.Disconnect(d)
		return false
	case !errors.As(err, &e):
		c.gateway.options.Logger.Error("command failed", "error", err)
		e = push.ErrInternal
	}
	c.gateway.counts.errors.Add(e.Code)
	if id != 0 && c.reply(&protocol.Reply{ID: id, Error: e}) != nil {
		return false
	}
	if c.kind.way != Emulated || c.hub.Load() != nil {
		return true
	}
	// The client cannot try again on this connection: only the reply to a connect command names the session that further commands need.
	c.gateway.ClientRefused()
	c.told.Store(true)
	c.Disconnect(DisconnectFor(e))
	return false
}

// Told reports whether the last reply says why the connection ends. Then the carrier ends it without a disconnect push, which an SDK that has just
// begun to connect again would take for the end of its next connection.
func (c *Client) Told() bool { return c.told.Load() }
