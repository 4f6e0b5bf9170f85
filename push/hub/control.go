package hub

import (
	"context"
	"slices"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/hub/control"
	"github.com/sluice-push/sluice/push/pace"
)

// Target selects the clients of a user, or one client.
type Target = control.Target

// Disconnect ends the connections of a target on all nodes, except those of the clients in except. It returns when the nodes have been told, not
// when the connections have ended.
//
// Errors are *push.Error: bad request if the target is empty, internal.
func (h *Hub) Disconnect(ctx context.Context, t Target, d push.Disconnect, except []string) error {
	return h.tell(ctx, control.Message{Op: control.Disconnect, User: t.User, Client: t.Client, Except: except, Code: uint32(d.Code), Reason: d.Reason})
}

// Unsubscribe ends a target's subscriptions to a channel on all nodes; an empty name means all channels. It returns when the nodes have been
// told, not when the subscriptions have ended. Errors are those of Disconnect.
func (h *Hub) Unsubscribe(ctx context.Context, t Target, name string, u push.Unsubscribe) error {
	return h.tell(ctx, control.Message{Op: control.Unsubscribe, User: t.User, Client: t.Client, Channel: name, Code: u.Code, Reason: u.Reason})
}

func (h *Hub) tell(ctx context.Context, c control.Message) error {
	if c.Target().IsEmpty() {
		return push.ErrBadRequest.WithMessage("user or client is missing")
	}
	return h.send(ctx, "", c)
}

// send sends a control message to a node, or to all nodes if node is empty.
func (h *Hub) send(ctx context.Context, node string, c control.Message) error {
	payload, err := c.Encode()
	if err == nil {
		err = h.broker.Tell(ctx, node, payload)
	}
	if err != nil {
		return push.ErrInternal.WithMessage("the control message could not be sent to the nodes")
	}
	return nil
}

// SendNode sends a message to the hub with an ID, in whatever process it runs, for its ReceiveNode function. It returns when the broker has the
// message, which is lost if there is no such hub. The error is a *push.Error: internal.
func (h *Hub) SendNode(ctx context.Context, id string, message []byte) error {
	return h.send(ctx, id, control.Message{Op: control.Direct, Message: message})
}

// ReceiveNode sets the function that receives what other hubs send to this one by SendNode. The function must not block: control messages wait
// for it. It owns the message. A message that comes before the function is set is lost. ReceiveNode may be called at any time.
func (h *Hub) ReceiveNode(f func(message []byte)) { h.receiver.Store(&f) }

// control executes a control message.
func (h *Hub) control(payload []byte) {
	c, err := control.Decode(payload)
	if err != nil {
		h.options.Logger.Warn("control message malformed", "error", err)
		return
	}
	target := c.Target()
	switch c.Op {
	case control.Disconnect:
		for _, s := range h.list() {
			if target.Fits(&s.info) && !slices.Contains(c.Except, s.info.Client) {
				s.Disconnect(push.Disconnect{Code: uint16(c.Code), Reason: c.Reason}) //nolint:gosec // was a uint16
			}
		}
	case control.Unsubscribe:
		h.endAll(target, c.Channel, push.Unsubscribe{Code: c.Code, Reason: c.Reason})
	case control.Direct:
		if f := h.receiver.Load(); f != nil {
			(*f)(c.Message)
		}
	case control.Pace:
		h.paceAll(target, c.Channel, pace.Bounds{Interval: c.Interval, Bandwidth: c.Bandwidth})
	default:
		h.options.Logger.Warn("control message unknown", "op", c.Op)
	}
}

// endAll ends the subscriptions of a target to a channel, or to all channels if name is empty. It finds them in the topics and takes no session's
// lock, because a session whose client does not read its answers must not hold up the others.
func (h *Hub) endAll(target Target, name string, u push.Unsubscribe) {
	for _, t := range h.topics() {
		if name != "" && t.name != name {
			continue
		}
		for _, sub := range t.subscriptions() {
			if sub.of == nil && target.Fits(&sub.session.info) && sub.endReason.CompareAndSwap(nil, &u) {
				sub.session.wake()
			}
		}
	}
}

func (h *Hub) list() []*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		out = append(out, s)
	}
	return out
}

// Channels returns the channels that match a pattern and have subscribers on this node, with the number of subscribers of each. In a pattern, *
// stands for any number of characters. An empty pattern matches all channels.
func (h *Hub) Channels(pattern string) map[string]int {
	out := map[string]int{}
	for _, t := range h.topics() {
		if n := t.subscribers(); n > 0 && !isReserved(t.part.namespace.Name) && (pattern == "" || push.MatchChannel(pattern, t.name)) {
			out[t.name] = n
		}
	}
	return out
}
