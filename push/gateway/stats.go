package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/admission"
	"github.com/sluice-push/sluice/push/internal/codecount"
	"github.com/sluice-push/sluice/push/protocol"
)

// Stats is what a gateway has counted since it began.
type Stats struct {
	Transports map[string]TransportStats // by Transport.Name
	Refused    Refused
	Commands   map[protocol.Kind]uint64 // by kind; pongs are of kind none
	Errors     map[uint32]uint64        // errors that commands were answered with, by push.Error code; all others are codecount.Other
	Limited    Limited
	Exceeded   []admission.Count // how often limits were exceeded, enforced or not
	Panics     uint64            // in our handling of what clients sent
	QueueBytes int64             // what waits to be written to clients, a second ago at most
}

// TransportStats are the counts of one transport.
type TransportStats struct {
	Clients  int    // connected now
	Opened   uint64 // connections that became clients
	BytesIn  uint64 // without what net/http received: handshakes, the requests of streams
	BytesOut uint64 // likewise
	// Disconnected are the connections that the server ended, by the code of push.Disconnect; all others are codecount.Other.
	Disconnected map[uint32]uint64
	TimedOut     uint64 // connections that took nothing for longer than Options.WriteTimeout
	Left         uint64 // connections that ended otherwise: the client hung up, or vanished
	Panics       uint64 // in the handling of what clients sent
}

// Refused are the connections that became no clients, by why.
type Refused struct {
	Closing uint64 // the gateway was shutting down
	Full    uint64 // Options.Sessions
	Address uint64 // Options.SessionsPerAddress
	Ramp    uint64 // Options.Connects and Options.ConnectsPerAddress, which requests for routes count for; too many of these at a time
	Origin  uint64 // a page of another origin
	Request uint64 // what was asked for is not understood, or the connection broke
	Client  uint64 // a stream whose client, or one of whose subscriptions, was refused
	Session uint64 // commands of an emulated client for a session that does not exist
}

// Limited counts commands that were not carried out because there were too many of them.
type Limited struct {
	Session uint64 // Options.CommandsPerSession
	Address uint64 // Options.CommandsPerAddress
	Bytes   uint64 // Options.BytesPerSession
	Inbox   uint64 // frames of an emulated client that did not read its replies
}

// counters are what Stats reads.
type counters struct {
	closing, full, address, ramp, origin, request, client, session, inbox atomic.Uint64
	limitedSession, limitedAddress, limitedBytes                          atomic.Uint64

	commands [protocol.KindPush + 1]atomic.Uint64
	errors   *codecount.Codes
}

func newCounters() *counters { return &counters{errors: codecount.Of(push.ErrorCodes()...)} }

// Ending is how a connection ended that no call of Disconnect ended.
type Ending uint8

// The endings.
const (
	EndedByClient   Ending = iota // the client hung up, or vanished
	EndedByTimeout                // the client took nothing for longer than Options.WriteTimeout
	EndedByShutdown               // Shutdown was out of time; counted by the code of push.DisconnectShutdown
	EndedByMistake                // the client broke a rule of the transport; counted by the code of push.DisconnectBadRequest
)

// endings count how the connections of one transport ended.
type endings struct {
	disconnected   *codecount.Codes
	timedOut, left atomic.Uint64
	panics         atomic.Uint64 // of Recovered
}

func newEndings() endings { return endings{disconnected: codecount.Of(push.DisconnectCodes()...)} }

func (c *endings) count(how Ending) {
	switch how {
	case EndedByShutdown:
		c.disconnected.Add(uint32(push.DisconnectShutdown.Code))
	case EndedByMistake:
		c.disconnected.Add(uint32(push.DisconnectBadRequest.Code))
	case EndedByTimeout:
		c.timedOut.Add(1)
	default:
		c.left.Add(1)
	}
}

func (c *endings) stats() TransportStats {
	return TransportStats{Disconnected: c.disconnected.Read(), TimedOut: c.timedOut.Load(), Left: c.left.Load(), Panics: c.panics.Load()}
}

// Stats returns the counters. They are not read at one instant. It visits clients at most once a second, so that it may be called as often as one likes.
func (g *Gateway) Stats() Stats {
	c := g.counts
	s := Stats{
		Transports: map[string]TransportStats{},
		Refused: Refused{
			Closing: c.closing.Load(), Full: c.full.Load(), Address: c.address.Load(), Ramp: c.ramp.Load(),
			Origin: c.origin.Load(), Request: c.request.Load(), Client: c.client.Load(), Session: c.session.Load(),
		},
		Commands:   map[protocol.Kind]uint64{},
		Limited:    Limited{Session: c.limitedSession.Load(), Address: c.limitedAddress.Load(), Bytes: c.limitedBytes.Load(), Inbox: c.inbox.Load()},
		Exceeded:   g.limits.Counts(),
		Errors:     c.errors.Read(),
		QueueBytes: g.queuedBytes(),
	}
	for kind := range c.commands {
		s.Commands[protocol.Kind(kind)] = c.commands[kind].Load() //nolint:gosec // few
	}
	delete(s.Commands, protocol.KindPush) // which is no command
	for _, t := range g.transports {
		one := t.Stats()
		s.Panics += one.Panics
		s.Transports[t.Name()] = one
	}
	return s
}

// lookup is what was found out by visiting all clients.
type lookup struct {
	mu    sync.Mutex
	at    int64 // when that was, by the gateway's clock; 0 is never
	bytes int64
}

// queuedBytes returns what waits to be written to clients. They are visited if the last time was more than a second ago.
func (g *Gateway) queuedBytes() int64 {
	l, now := &g.waiting, g.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at > 0 && now-l.at < time.Second.Milliseconds() {
		return l.bytes
	}
	n := 0
	for c := range g.clients() {
		n += c.carrier.Queued()
	}
	l.at, l.bytes = now, int64(n)
	return l.bytes
}
