package sse

import (
	"net/http"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/protocol"
)

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
