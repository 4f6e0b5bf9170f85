// Package presence says who is there, on all nodes that share a broker: the clients of each channel, and the nodes. Each is a lease, which
// vanishes by itself when nobody renews it.
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

// The keys of leases. A channel name has no control characters, so the NUL ends it.
const (
	nodes   = "node/"
	clients = "presence/"
)

func in(channel string) string { return clients + channel + "\x00" }

// Book is where it is written down. Its methods may be called concurrently; errors are the broker's.
type Book struct {
	Leases broker.Leases
	TTL    time.Duration // how long what is not renewed stays
}

// record is a client as its lease holds it.
type record struct {
	User     string          `json:"user,omitempty"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

// NewKey returns the key of a client that is about to enter a channel. Each time it is another, so that the end of one subscription
// cannot take the next of the same client away.
func NewKey(channel string) string { return in(channel) + rand.Text() }

// Enter has a client show up under a key, or keeps it there.
func (b *Book) Enter(ctx context.Context, key string, c *push.ClientInfo) error {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false) // what others are shown is what was given
	if err := enc.Encode(record{c.User, c.Client, c.ConnInfo, c.ChanInfo}); err != nil {
		return err
	}
	return b.Leases.PutLease(ctx, broker.Lease{Key: key, Value: value.Bytes()}, b.TTL)
}

// Leave has it vanish at once.
func (b *Book) Leave(ctx context.Context, key string) error { return b.Leases.DropLease(ctx, key) }

// Clients returns who is in a channel, by client.
func (b *Book) Clients(ctx context.Context, channel string) (map[string]*push.ClientInfo, error) {
	leases, err := b.Leases.ListLeases(ctx, in(channel))
	if err != nil {
		return nil, err
	}
	out := make(map[string]*push.ClientInfo, len(leases))
	for _, l := range leases {
		var r record
		if err := json.Unmarshal(l.Value, &r); err != nil {
			continue // not written by a Book
		}
		out[r.Client] = &push.ClientInfo{User: r.User, Client: r.Client, ConnInfo: r.ConnInfo, ChanInfo: r.ChanInfo}
	}
	return out, nil
}

// Users returns how many users the clients of a channel are.
func Users(clients map[string]*push.ClientInfo) int {
	users := map[string]bool{}
	for _, c := range clients {
		users[c.User] = true
	}
	return len(users)
}

// Node is what a node says of itself.
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

// Announce has a node show up, or keeps it there, as it is now.
func (b *Book) Announce(ctx context.Context, n *Node) error {
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return b.Leases.PutLease(ctx, broker.Lease{Key: nodes + n.ID, Value: value}, b.TTL)
}

// Retire has a node vanish at once.
func (b *Book) Retire(ctx context.Context, id string) error { return b.Leases.DropLease(ctx, nodes+id) }

// Others returns the live nodes but one, each as it last said.
func (b *Book) Others(ctx context.Context, id string) ([]Node, error) {
	leases, err := b.Leases.ListLeases(ctx, nodes)
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
