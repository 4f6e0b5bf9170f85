// Package control has the messages with which hubs act on the sessions of each other, and their form in JSON.
package control

import (
	"encoding/json"
	"time"

	"github.com/sluice-push/sluice/push"
)

// Target selects the clients that a control message is for: all clients of a user, or one client. At least one of the two must be given. If both
// are given, both have to match.
type Target struct {
	User   string
	Client string
}

// IsEmpty reports whether neither a user nor a client is given.
func (t Target) IsEmpty() bool { return t == Target{} }

// Fits reports whether a client is one of the target.
func (t Target) Fits(info *push.ClientInfo) bool {
	return (t.Client == "" || t.Client == info.Client) && (t.User == "" && t.Client != "" || t.User == info.User)
}

// The operations of a message.
const (
	Disconnect  = "disconnect"
	Unsubscribe = "unsubscribe"
	Pace        = "pace"
	Direct      = "message" // from one hub to another, for the program above it
)

// Message is a control message to hubs.
type Message struct {
	Op      string   `json:"op"`
	User    string   `json:"user,omitempty"`
	Client  string   `json:"client,omitempty"`
	Channel string   `json:"channel,omitempty"`
	Except  []string `json:"except,omitempty"`
	Code    uint32   `json:"code"`
	Reason  string   `json:"reason"`

	Interval  *time.Duration `json:"interval,omitempty"` // in nanoseconds
	Bandwidth *int64         `json:"bandwidth,omitempty"`

	Message []byte `json:"message,omitempty"` // of Direct
}

// Target returns the clients that the message is for.
func (m *Message) Target() Target { return Target{User: m.User, Client: m.Client} }

// Encode returns the message as JSON.
func (m *Message) Encode() ([]byte, error) { return json.Marshal(m) }

// Decode parses a message. Unknown fields are ignored, because hubs of a newer release may send them.
func Decode(payload []byte) (m Message, err error) {
	err = json.Unmarshal(payload, &m)
	return m, err
}
