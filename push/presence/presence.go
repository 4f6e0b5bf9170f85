// Package presence stores which clients are in which channels, and which nodes are up, for all nodes that share a broker. Each entry is a lease,
// which ends by itself if its owner does not renew it. Clients belong to their node: if a node is killed, its lease ends after a few seconds, and its
// clients are not listed any more. Leases of clients last longer than those of nodes, so they are renewed less often.
package presence

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// The prefixes of the leases' keys. A channel name has no control characters, so a NUL ends it.
const (
	nodes   = "node/"
	clients = "presence/"
)

// in returns the prefix of the keys of a channel's clients.
func in(channel string) string { return clients + channel + "\x00" }

// NodeTTL is how long a node counts as up after its entry was last renewed. nodeBeats is how often Beat renews it.
const (
	NodeTTL   = 4 * time.Second
	nodeBeats = time.Second
)

// Registry stores the entries in the leases of a broker. All methods may be called concurrently. Their errors are the broker's.
type Registry struct {
	Leases broker.Leases
	Node   string        // the ID of this node
	TTL    time.Duration // how long the entry of a client stays after it was last renewed

	mu        sync.Mutex
	announced []byte // guarded by mu: the value of this node's lease; nil if it is not up
}

// record is the value of a client's lease.
type record struct {
	User     string          `json:"user,omitempty"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
	Node     string          `json:"node,omitempty"` // to which the client is connected
}

// NewKey returns a new key for a client that is about to enter a channel. Every call returns another one. So the end of a subscription cannot
// remove the entry of the same client's next one.
func NewKey(channel string) string { return in(channel) + rand.Text() }

// Enter adds a client under a key, or renews its entry.
func (r *Registry) Enter(ctx context.Context, key string, c *push.ClientInfo) error {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false) // other clients get the JSON unchanged
	if err := enc.Encode(record{c.User, c.Client, c.ConnInfo, c.ChanInfo, r.Node}); err != nil {
		return err
	}
	return r.Leases.PutLease(ctx, broker.Lease{Key: key, Value: value.Bytes()}, r.TTL)
}

// Leave removes an entry at once.
func (r *Registry) Leave(ctx context.Context, key string) error { return r.Leases.DropLease(ctx, key) }

// Clients returns the clients in a channel that are connected to nodes which are up, by client ID.
func (r *Registry) Clients(ctx context.Context, channel string) (map[string]*push.ClientInfo, error) {
	leases, err := r.Leases.ListLeases(ctx, in(channel))
	if err != nil {
		return nil, err
	}
	out := make(map[string]*push.ClientInfo, len(leases))
	var up map[string]bool // nodes; nil until there is a client of another one
	for _, l := range leases {
		var c record
		if err := json.Unmarshal(l.Value, &c); err != nil {
			continue // not written by a Registry
		}
		if c.Node != "" && c.Node != r.Node {
			if up == nil {
				if up, err = r.nodesUp(ctx); err != nil {
					return nil, err
				}
			}
			if !up[c.Node] {
				continue
			}
		}
		out[c.Client] = &push.ClientInfo{User: c.User, Client: c.Client, ConnInfo: c.ConnInfo, ChanInfo: c.ChanInfo}
	}
	return out, nil
}

// nodesUp returns the IDs of the nodes that are up.
func (r *Registry) nodesUp(ctx context.Context) (map[string]bool, error) {
	leases, err := r.Leases.ListLeases(ctx, nodes)
	up := make(map[string]bool, len(leases))
	for _, l := range leases {
		up[strings.TrimPrefix(l.Key, nodes)] = true
	}
	return up, err
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

// Announce adds this node, or renews its entry with new values. Beat keeps it renewed; without that the node counts as
// down after NodeTTL.
func (r *Registry) Announce(ctx context.Context, n *Node) error {
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.announced = value
	r.mu.Unlock()
	return r.putNode(ctx, value)
}

func (r *Registry) putNode(ctx context.Context, value []byte) error {
	return r.Leases.PutLease(ctx, broker.Lease{Key: nodes + r.Node, Value: value}, NodeTTL)
}

// Beat renews the entry of this node each second, with the values that were last announced, until ctx is done. A renewal that fails is
// tried again a second later.
func (r *Registry) Beat(ctx context.Context) {
	tick := time.NewTicker(nodeBeats)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		value := r.announced
		r.mu.Unlock()
		if value != nil {
			ctx, cancel := context.WithTimeout(ctx, NodeTTL)
			_ = r.putNode(ctx, value)
			cancel()
		}
	}
}

// Retire removes this node, and with it its clients, at once. Beat must have returned.
func (r *Registry) Retire(ctx context.Context) error {
	return r.Leases.DropLease(ctx, nodes+r.Node)
}

// Others returns the nodes that are up, except this one, each with its last announced values.
func (r *Registry) Others(ctx context.Context) ([]Node, error) {
	leases, err := r.Leases.ListLeases(ctx, nodes)
	if err != nil {
		return nil, err
	}
	var out []Node
	for _, l := range leases {
		var n Node
		if l.Key != nodes+r.Node && json.Unmarshal(l.Value, &n) == nil {
			out = append(out, n)
		}
	}
	return out, nil
}
