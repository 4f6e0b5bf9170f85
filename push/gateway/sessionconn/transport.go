package sessionconn

import (
	"context"
	"iter"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/session"
)

// readBuffer is what is read of one client at a time: commands are small, and what was read is kept while the client does not read the answers.
const readBuffer = 32 << 10

// NotSentLowat bounds what the kernel takes for one client before it could send it, see session.Options.
const NotSentLowat = 16 << 10

// Options returns the settings of the sessions of clients, with the gateway's SendBuffer, WriteTimeout, Linger and Logger. The transport sets
// MaxMessage.
func Options(o *gateway.Options) *session.Options {
	return &session.Options{
		SendBuffer:   max(o.SendBuffer, 0),
		ReadBuffer:   readBuffer,
		WriteTimeout: o.WriteTimeout,
		NotSentLowat: NotSentLowat,
		Linger:       o.Linger,
		Logger:       o.Logger,
	}
}

// Transport is all of a gateway.Transport. Its methods may be called concurrently.
type Transport struct {
	name   string
	server *session.Server
	kinds  []*gateway.Kind
}

// NewTransport returns a transport with a name, whose clients are of the given kinds and are the sessions of a server. The values of the sessions
// are of the type [Value].
func NewTransport(name string, server *session.Server, kinds ...*gateway.Kind) *Transport {
	return &Transport{name: name, server: server, kinds: kinds}
}

// Name implements gateway.Transport.
func (t *Transport) Name() string { return t.name }

// Len implements gateway.Transport.
func (t *Transport) Len() int { return t.server.Len() }

// Clients implements gateway.Transport. It visits the clients whose sessions are open.
func (t *Transport) Clients() iter.Seq[*gateway.Client] {
	return func(yield func(*gateway.Client) bool) {
		for s := range t.server.Sessions() {
			if c := Of(s); c != nil && c.IsStarted() && !yield(&c.Client) {
				return
			}
		}
	}
}

// Stats implements gateway.Transport.
func (t *Transport) Stats() gateway.TransportStats {
	live, s := t.server.Stats(), gateway.SumStats(t.kinds)
	s.Clients, s.Opened, s.BytesIn, s.BytesOut = live.Sessions, live.Opened, live.BytesIn, live.BytesOut
	s.Panics += live.Panics
	return s
}

// Shutdown implements gateway.Transport: the session's handler tells each client to go elsewhere, by [Conn.Drain].
func (t *Transport) Shutdown(ctx context.Context) error { return t.server.Shutdown(ctx) }
