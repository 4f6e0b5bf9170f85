package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

// What the tests need to know of the bounds.
const (
	StreamBuffer = streamBuffer
	MaxVector    = maxVector
	LostVector   = lostVector
	HistoryBytes = historyBytes
)

// SetLinger sets how long clients may take to answer a close frame.
func (o *Options) SetLinger(d time.Duration) { o.linger = d }

// Vector is the position in all channels that is a stream's event id.
type Vector struct{ v vector }

// Move notes where the client is in a channel.
func (v *Vector) Move(channel string, at push.Position) { v.v.move(channel, at) }

// String returns the event id.
func (v *Vector) String() string { return string(v.v.append(nil)) }

// ParseVector reads an event id of a client of some channels.
func ParseVector(id string, names ...string) map[string]push.Position {
	slices.Sort(names)
	return parseVector(id, names)
}

// ConnectOf reads the connect request of a one-way client.
func ConnectOf(r *http.Request) (*protocol.ConnectRequest, error) { return connectOf(r) }

// AddressOf is what counts as one address.
func AddressOf(remote string) netip.Addr { return addressOf(remote) }

// PublicationOf is what a delivery says to a client.
func PublicationOf(d *channel.Delivery) push.Publication { return publicationOf(d, push.NoDelta) }

// Carriers are those of the WebSocket clients.
func (g *Gateway) Carriers() (all []hub.Carrier) {
	for s := range g.server.Sessions() {
		all = append(all, s.Value().(*client))
	}
	return all
}

// HeldByStreams returns how many bytes the streams hold for their clients.
func (g *Gateway) HeldByStreams() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.streams {
		s.mu.Lock()
		n += len(s.buf) + s.writing
		s.mu.Unlock()
	}
	return n
}

// InOrder brings the changes in the answer to a map subscription in order.
func InOrder(ds []channel.Delivery) { inOrder(ds) }
