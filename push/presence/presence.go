// Package presence stores which clients are in which channels, and which nodes are up, for all nodes that share a broker. Each entry is a lease,
// which vanishes by itself if its owner does not renew it.
package presence

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// The prefixes of the leases' keys. A channel name has no control characters, so a NUL ends it.
const (
	nodes   = "node/"
	clients = "presence/"
)

func in(channel string) string { return clients + channel + "\x00" }

// Registry stores the entries in the leases of a broker. All methods may be called concurrently. Their errors are the broker's.
type Registry struct {
	Leases broker.Leases
	TTL    time.Duration // how long an entry stays that is not renewed
}

// record is the value of a client's lease.
type record struct {
	User     string          `json:"user,omitempty"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

// NewKey returns a new key for a client that is about to enter a channel. Every call returns another one. So the end of a subscription cannot
// remove the entry of the same client's next one.
func NewKey(channel string) string { return in(channel) + rand.Text() }

// Enter adds a client under a key, or renews its entry.
func (r *Registry) Enter(ctx context.Context, key string, c *push.ClientInfo) error {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false) // other clients get the JSON unchanged
	if err := enc.Encode(record{c.User, c.Client, c.ConnInfo, c.ChanInfo}); err != nil {
		return err
	}
	return r.Leases.PutLease(ctx, broker.Lease{Key: key, Value: value.Bytes()}, r.TTL)
}

// Leave removes an entry at once.
func (r *Registry) Leave(ctx context.Context, key string) error { return r.Leases.DropLease(ctx, key) }

// Clients returns the clients in a channel, by client ID.
func (r *Registry) Clients(ctx context.Context, channel string) (map[string]*push.ClientInfo, error) {
	leases, err := r.Leases.ListLeases(ctx, in(channel))
	if err != nil {
		return nil, err
	}
	out := make(map[string]*push.ClientInfo, len(leases))
	for _, l := range leases {
		var r record
		if err := json.Unmarshal(l.Value, &r); err != nil {
			continue // not written by a Registry
		}
		out[r.Client] = &push.ClientInfo{User: r.User, Client: r.Client, ConnInfo: r.ConnInfo, ChanInfo: r.ChanInfo}
	}
	return out, nil
}

// Users returns the number of different users among the clients of a channel.
func Users(clients map[string]*push.ClientInfo) int {
	users := map[string]bool{}
	for _, c := range clients {
		users[c.User] = true
	}
	return len(users)
}

// Node is the entry of a node.
type Node struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Clients  int    `json:"clients"`
	Users    int    `json:"users"`
	Subs     int    `json:"subs"`
	Channels int    `json:"channels"`
	Uptime   int64  `json:"uptime"` // seconds
}

// Announce adds a node, or renews its entry with new values.
func (r *Registry) Announce(ctx context.Context, n *Node) error {
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return r.Leases.PutLease(ctx, broker.Lease{Key: nodes + n.ID, Value: value}, r.TTL)
}

// Retire removes a node at once.
func (r *Registry) Retire(ctx context.Context, id string) error {
	return r.Leases.DropLease(ctx, nodes+id)
}

// Others returns the live nodes except one, each with its last announced values.
func (r *Registry) Others(ctx context.Context, id string) ([]Node, error) {
	leases, err := r.Leases.ListLeases(ctx, nodes)
	if err != nil {
		return nil, err
	}
	var out []Node
	for _, l := range leases {
		var n Node
		if strings.TrimPrefix(l.Key, nodes) != id && json.Unmarshal(l.Value, &n) == nil {
			out = append(out, n)
		}
	}
	return out, nil
}
