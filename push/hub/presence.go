package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
)

// Leases of the hub: one a node, and one a subscription where presence is kept. A channel name has no control characters, so the
// NUL ends it. Each subscription has a lease of its own, so that the end of one cannot take away that of the next.
const (
	nodeLease     = "node/"
	presenceLease = "presence/"
)

// clientRecord is a client as its presence lease holds it.
type clientRecord struct {
	User     string          `json:"user,omitempty"`
	Client   string          `json:"client"`
	ConnInfo json.RawMessage `json:"conn_info,omitempty"`
	ChanInfo json.RawMessage `json:"chan_info,omitempty"`
}

// presence is one subscription as others see it.
type presence struct {
	topic *topic
	key   string
	info  push.ClientInfo
}

func presenceIn(name string) string { return presenceLease + name + "\x00" }

// present makes a subscription show up in its channel, or keeps it there.
func (h *Hub) present(ctx context.Context, p *presence) {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false) // what others are shown is what was given
	err := enc.Encode(clientRecord{p.info.User, p.info.Client, p.info.ConnInfo, p.info.ChanInfo})
	if err == nil {
		err = h.broker.PutLease(ctx, broker.Lease{Key: p.key, Value: value.Bytes()}, h.options.PresenceTTL)
	}
	h.warnPresence(p.topic.name, err)
}

// absent makes the client of a subscription that ended vanish from the channel.
func (h *Hub) absent(ctx context.Context, sub *Subscription) {
	if sub.presence == nil {
		return
	}
	h.warnPresence(sub.presence.topic.name, h.broker.DropLease(ctx, sub.presence.key))
}

// warnPresence tells the operator of an error, if there is one, but not for each of many clients.
func (h *Hub) warnPresence(channel string, err error) {
	if err != nil && h.presenceWarnings.Due(time.Now()) {
		h.options.Logger.Warn("presence is not up to date", "channel", channel, "error", err)
	}
}

// absentNow is absent, bounded in time.
func (h *Hub) absentNow(sub *Subscription) {
	if sub.presence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.options.LoadTimeout)
	defer cancel()
	h.absent(ctx, sub)
}

// absentLater is absent for callers that must not wait.
func (h *Hub) absentLater(sub *Subscription) {
	if sub.presence != nil {
		h.spawn(sub.presence.topic.part, func() { h.absentNow(sub) })
	}
}

// keepPresent renews what says that the node's clients are present. One whose subscription ends meanwhile must not be brought back: its
// lease is dropped after it was marked as gone, and here once more when the mark came before the lease was renewed.
func (h *Hub) keepPresent(ctx context.Context) {
	for _, t := range h.topics() {
		if !t.part.namespace.Presence {
			continue
		}
		for _, sub := range t.subscriptions() {
			h.present(ctx, sub.presence)
			if sub.isOver() {
				h.absent(ctx, sub)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// Presence returns who is subscribed to a channel, on all nodes, by client. Errors are *push.Error; push.ErrNotAvailable where the
// namespace keeps no presence.
func (h *Hub) Presence(ctx context.Context, name string) (map[string]*push.ClientInfo, error) {
	n, err := h.namespaceOf(name)
	if err != nil {
		return nil, err
	}
	if !n.Presence {
		return nil, push.ErrNotAvailable.WithMessage("namespace %q keeps no presence", n.Name)
	}
	leases, err := h.broker.ListLeases(ctx, presenceIn(name))
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker does not say who is present")
	}
	out := make(map[string]*push.ClientInfo, len(leases))
	for _, l := range leases {
		var r clientRecord
		if err := json.Unmarshal(l.Value, &r); err != nil {
			continue // not written by a hub
		}
		out[r.Client] = &push.ClientInfo{User: r.User, Client: r.Client, ConnInfo: r.ConnInfo, ChanInfo: r.ChanInfo}
	}
	return out, nil
}

// PresenceStats returns how many clients, and how many users, are subscribed to a channel.
func (h *Hub) PresenceStats(ctx context.Context, name string) (clients, users int, err error) {
	present, err := h.Presence(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	byUser := map[string]bool{}
	for _, c := range present {
		byUser[c.User] = true
	}
	return len(present), len(byUser), nil
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

// Node returns what this node is doing.
func (h *Hub) Node() Node {
	n := Node{ID: h.id, Name: h.options.Name, Version: h.options.Version, Uptime: int64(time.Since(h.started).Seconds())}
	users := map[string]bool{}
	for _, s := range h.list() {
		n.Clients++
		users[s.info.User] = true
	}
	n.Users = len(users)
	for _, t := range h.topics() {
		if subs := t.subscribers(); subs > 0 {
			n.Channels++
			n.Subs += subs
		}
	}
	return n
}

// Nodes returns the live nodes that share the broker: this one as it is now, the others as they last said.
func (h *Hub) Nodes(ctx context.Context) ([]Node, error) {
	leases, err := h.broker.ListLeases(ctx, nodeLease)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker does not say which nodes there are")
	}
	out := []Node{h.Node()}
	for _, l := range leases {
		var n Node
		if strings.TrimPrefix(l.Key, nodeLease) == h.id || json.Unmarshal(l.Value, &n) != nil {
			continue
		}
		out = append(out, n)
	}
	return out, nil
}

// announce keeps the node's lease.
func (h *Hub) announce(ctx context.Context) error {
	value, err := json.Marshal(h.Node())
	if err != nil {
		return err
	}
	return h.broker.PutLease(ctx, broker.Lease{Key: nodeLease + h.id, Value: value}, h.options.PresenceTTL)
}
