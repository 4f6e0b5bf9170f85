package hub

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/presence"
)

// attendee is one subscription as others see it.
type attendee struct {
	topic *topic
	key   string
	info  push.ClientInfo
}

// present makes a subscription show up in its channel, or keeps it there.
func (h *Hub) present(ctx context.Context, a *attendee) {
	h.warnPresence(a.topic.name, h.book.Enter(ctx, a.key, &a.info))
}

// absent makes the client of a subscription that ended vanish from the channel.
func (h *Hub) absent(ctx context.Context, sub *Subscription) {
	if sub.presence != nil {
		h.warnPresence(sub.presence.topic.name, h.book.Leave(ctx, sub.presence.key))
	}
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
	present, err := h.book.Clients(ctx, name)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker does not say who is present")
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

// Node returns what this node is doing.
func (h *Hub) Node() presence.Node {
	n := presence.Node{ID: h.id, Name: h.options.Name, Version: h.options.Version, Uptime: int64(time.Since(h.started).Seconds())}
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
func (h *Hub) Nodes(ctx context.Context) ([]presence.Node, error) {
	others, err := h.book.Others(ctx, h.id)
	if err != nil {
		return nil, push.ErrInternal.WithMessage("the broker does not say which nodes there are")
	}
	return append([]presence.Node{h.Node()}, others...), nil
}

// announce keeps the node's lease.
func (h *Hub) announce(ctx context.Context) error {
	n := h.Node()
	return h.book.Announce(ctx, &n)
}
