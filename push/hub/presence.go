package hub

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/presence"
)

// joinsHistory is how many of the newest join and leave events of a channel a slow client may be behind before it misses some.
var joinsHistory = push.History{Size: 256, Age: time.Minute}

// introduce prepares what others are told of a subscription, and puts its client into the presence of the channel. If the client wants the
// channel's join and leave pushes, introduce loads their stream. The caller calls absentNow if the subscription does not begin.
func (h *Hub) introduce(ctx context.Context, sub *Subscription, r *SubscribeRequest) error {
	n := sub.topic.part.namespace
	if n.JoinLeave && r.JoinLeave {
		t, err := h.namespaces[presence.EventNamespace].acquire(ctx, presence.EventChannel(r.Channel))
		if err != nil {
			return err
		}
		sub.joins = &Subscription{subSettings: &subSettings{of: sub}, session: sub.session, topic: t, lossy: true}
	}
	o := presence.EntryOptions{Listed: n.Presence}
	if n.JoinLeave {
		o.Announce = h.announceClient
	}
	info := sub.session.info
	info.ChanInfo = r.ChanInfo
	sub.presence = presence.NewEntry(r.Channel, info, o)
	h.warnPresence(r.Channel, h.presence.Renew(ctx, sub.presence))
	return nil
}

// announceClient tells all nodes that a client came or went.
func (h *Hub) announceClient(ctx context.Context, e *presence.Event) error {
	_, err := h.publish(ctx, h.namespaces[presence.EventNamespace], presence.EventChannel(e.Channel), e.Publication(), "")
	return err
}

// followJoinsLocked begins the join and leave pushes of a subscription that has just begun.
func (s *Session) followJoinsLocked(joins *Subscription) {
	t := joins.topic
	t.mu.Lock()
	joins.cursor, _ = t.log.Subscribe(nil, nil)
	joins.generation = t.generation.Load()
	t.joinLocked(joins)
	t.mu.Unlock()
	s.subs = append(s.subs, joins)
	s.paceLocked(joins, 0, nil)
}

// absent removes a subscription that has ended from the presence of its channel.
func (h *Hub) absent(ctx context.Context, sub *Subscription) {
	if sub.presence != nil {
		h.warnPresence(sub.presence.Channel, errors.Join(h.presence.Remove(ctx, sub.presence), sub.presence.Left(ctx)))
	}
}

// warnPresence logs an error, if there is one. It limits the rate, because one cause may fail for many clients.
func (h *Hub) warnPresence(channel string, err error) {
	if err != nil && h.presenceWarnings.Due(time.Now()) {
		h.options.Logger.Warn("presence update failed", "channel", channel, "error", err)
	}
}

// absentNow is absent with Options.LoadTimeout as its timeout.
func (h *Hub) absentNow(sub *Subscription) {
	if sub.presence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.options.LoadTimeout)
	defer cancel()
	h.absent(ctx, sub)
}

// absentLater is absentNow in a goroutine, for callers that must not wait.
func (h *Hub) absentLater(sub *Subscription) {
	if sub.presence != nil {
		h.spawn(sub.topic.part, func() { h.absentNow(sub) })
	}
}

// keepPresent renews the leases of the node's clients. It must not bring back a subscription that ends meanwhile. The end of a subscription marks it
// as removed before it removes the lease. If keepPresent finds that mark after it has renewed the lease, it removes the lease again.
func (h *Hub) keepPresent(ctx context.Context) {
	for _, t := range h.topics() {
		if !t.part.namespace.Presence {
			continue
		}
		for _, sub := range t.subscriptions() {
			h.warnPresence(t.name, h.presence.Renew(ctx, sub.presence))
			if sub.isRemoved() {
				h.absent(ctx, sub)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// Presence returns the clients that are subscribed to a channel, on all nodes, keyed by client. Errors are *push.Error; push.ErrNotAvailable if
// the namespace keeps no presence.
func (h *Hub) Presence(ctx context.Context, name string) (map[string]*push.ClientInfo, error) {
	n, err := h.namespaceOf(name)
	if err != nil {
		return nil, err
	}
	if !n.Presence {
		return nil, push.ErrNotAvailable.WithMessage("namespace %q keeps no presence", n.Name)
	}
	present, err := h.presence.Clients(ctx, name)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker could not list presence")
	}
	return present, nil
}

// PresenceStats returns how many clients, and how many users, are subscribed to a channel.
func (h *Hub) PresenceStats(ctx context.Context, name string) (clients, users int, err error) {
	present, err := h.Presence(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	return len(present), presence.Users(present), nil
}

// Node returns a description of this node: its name, uptime, and numbers of clients, users, channels and subscriptions.
func (h *Hub) Node() presence.Node {
	n := presence.Node{ID: h.id, Name: h.options.Name, Version: h.options.Version, Uptime: int64(time.Since(h.started).Seconds())}
	users := map[string]bool{}
	for _, s := range h.list() {
		n.Clients++
		users[s.info.User] = true
	}
	n.Users = len(users)
	for _, t := range h.topics() {
		if subs := t.subscribers(); subs > 0 && !isReserved(t.part.namespace.Name) {
			n.Channels++
			n.Subs += subs
		}
	}
	return n
}

// Nodes returns the live nodes that share the broker. The description of this node is current; the others are as of their last announcement.
func (h *Hub) Nodes(ctx context.Context) ([]presence.Node, error) {
	others, err := h.presence.Others(ctx)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker could not list the nodes")
	}
	return append([]presence.Node{h.Node()}, others...), nil
}

// OtherNodes returns the other live nodes that share the broker, as of their last announcement.
func (h *Hub) OtherNodes(ctx context.Context) ([]presence.Node, error) {
	return h.presence.Others(ctx)
}

// announce writes the description of this node to the broker, or renews it.
func (h *Hub) announce(ctx context.Context) error {
	return h.presence.Announce(ctx, new(h.Node()))
}
