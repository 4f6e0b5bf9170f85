package gateway

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/count"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/websocket/wire"
)

// Transport is how clients connect.
type Transport uint8

// The transports.
const (
	WebSocket Transport = iota
	SSE
	transports
)

// String returns websocket or sse.
func (t Transport) String() string { return [transports]string{"websocket", "sse"}[t] }

// Transports returns all there are.
func Transports() []Transport { return []Transport{WebSocket, SSE} }

// Stats is what a gateway has counted since it began.
type Stats struct {
	Transports map[Transport]TransportStats
	Refused    Refused
	Commands   map[protocol.Kind]uint64 // by kind; pongs are of kind none
	Errors     map[uint32]uint64        // errors that commands were answered with, by push.Error code; all others are count.Other
	Limited    Limited
	Panics     uint64 // in our handling of what clients sent
	QueueBytes int64  // what waits to be written to clients, a second ago at most
}

// TransportStats are the counts of one transport.
type TransportStats struct {
	Clients  int    // connected now
	Opened   uint64 // connections that became clients
	BytesIn  uint64 // without what net/http received: handshakes, the requests of streams
	BytesOut uint64 // likewise
	// Disconnected are the connections that the server ended, by the code of push.Disconnect; all others are count.Other.
	Disconnected map[uint32]uint64
	TimedOut     uint64 // connections that took nothing for longer than Options.WriteTimeout
	Left         uint64 // connections that ended otherwise: the client hung up, or vanished
}

// Refused are the connections that became no clients, by why.
type Refused struct {
	Closing uint64 // the gateway was shutting down
	Full    uint64 // Options.Sessions
	Address uint64 // Options.SessionsPerAddress
	Origin  uint64 // a page of another origin
	Request uint64 // what was asked for is not understood, or the connection broke
	Client  uint64 // a stream whose client, or one of whose subscriptions, was refused
}

// Limited counts commands that were not carried out because there were too many a second.
type Limited struct {
	Session uint64 // Options.CommandsPerSession
	Address uint64 // Options.CommandsPerAddress
}

// counters are what Stats reads.
type counters struct {
	closing, full, address, origin, request, client atomic.Uint64
	limitedSession, limitedAddress                  atomic.Uint64

	commands [protocol.KindPush + 1]atomic.Uint64
	errors   *count.Codes

	streamsOpened, streamBytes atomic.Uint64
	disconnected               [transports]*count.Codes
	timedOut, left             [transports]atomic.Uint64
}

func newCounters() *counters {
	c := &counters{errors: count.Of(push.ErrorCodes()...)}
	for i := range c.disconnected {
		c.disconnected[i] = count.Of(push.DisconnectCodes()...)
	}
	return c
}

// Stats returns the counters. They are not read at one instant. It visits clients at most once a second, so that it may be called as often as one likes.
func (g *Gateway) Stats() Stats {
	c := g.counts
	s := Stats{
		Transports: map[Transport]TransportStats{},
		Refused: Refused{
			Closing: c.closing.Load(), Full: c.full.Load(), Address: c.address.Load(),
			Origin: c.origin.Load(), Request: c.request.Load(), Client: c.client.Load(),
		},
		Commands:   map[protocol.Kind]uint64{},
		Limited:    Limited{Session: c.limitedSession.Load(), Address: c.limitedAddress.Load()},
		Errors:     c.errors.Read(),
		QueueBytes: g.queuedBytes(),
	}
	for kind := range c.commands {
		s.Commands[protocol.Kind(kind)] = c.commands[kind].Load() //nolint:gosec // few
	}
	delete(s.Commands, protocol.KindPush) // which is no command
	live := g.server.Stats()
	s.Panics = live.Panics
	g.mu.Lock()
	streams := len(g.streams)
	g.mu.Unlock()
	for _, t := range Transports() {
		one := TransportStats{
			Disconnected: c.disconnected[t].Read(), TimedOut: c.timedOut[t].Load(), Left: c.left[t].Load(),
		}
		if t == WebSocket {
			one.Clients, one.Opened, one.BytesIn, one.BytesOut = live.Sessions, live.Opened, live.BytesIn, live.BytesOut
		} else {
			one.Clients, one.Opened, one.BytesOut = streams, c.streamsOpened.Load(), c.streamBytes.Load()
		}
		s.Transports[t] = one
	}
	return s
}

// countRefused counts a handshake that wire refused.
func (g *Gateway) countRefused(err error, r *http.Request) {
	if refusal := new(wire.Refusal); errors.As(err, &refusal) && refusal.Status == http.StatusForbidden {
		g.refuseOrigin(r.Header["Origin"], r.Host, r.RemoteAddr)
		return
	}
	g.counts.request.Add(1)
}

// countEnd counts the end of a WebSocket connection to which the server has not said goodbye.
func (c *counters) countEnd(info *session.CloseInfo) {
	switch {
	case info.By == session.ByLocal: // cut by Shutdown
		c.disconnected[WebSocket].Add(uint32(push.DisconnectShutdown.Code))
	case errors.Is(info.Err, session.ErrTimeout):
		c.timedOut[WebSocket].Add(1)
	default:
		c.left[WebSocket].Add(1)
	}
}

// countEnd counts the end of a stream that had begun.
func (s *stream) countEnd() {
	s.mu.Lock()
	ends := s.ends
	s.mu.Unlock()
	switch c := s.gateway.counts; {
	case ends != nil:
		c.disconnected[SSE].Add(uint32(ends.Code))
	case s.gateway.ctx.Err() != nil: // cut by Shutdown
		c.disconnected[SSE].Add(uint32(push.DisconnectShutdown.Code))
	case s.late:
		c.timedOut[SSE].Add(1)
	default:
		c.left[SSE].Add(1)
	}
}

// queuedBytes returns what waits to be written to a stream.
func (s *stream) queuedBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.buf) + s.writing
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
	for s := range g.server.Sessions() {
		n += s.Queued()
	}
	g.mu.Lock()
	streams := slices.Collect(maps.Keys(g.streams))
	g.mu.Unlock()
	for _, s := range streams {
		n += s.queuedBytes()
	}
	l.at, l.bytes = now, int64(n)
	return l.bytes
}
