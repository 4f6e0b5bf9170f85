package hub

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/pace"
)

// Target says which clients a control message is for: all of a user's, or one connection. At least one of the two must be given; with
// both, both have to fit.
type Target struct {
	User   string
	Client string
}

func (t Target) fits(info *push.ClientInfo) bool {
	return (t.Client == "" || t.Client == info.Client) && (t.User == "" && t.Client != "" || t.User == info.User)
}

// command is a control message to the nodes.
type command struct {
	Op      string   `json:"op"` // disconnect, unsubscribe or pace
	User    string   `json:"user,omitempty"`
	Client  string   `json:"client,omitempty"`
	Channel string   `json:"channel,omitempty"`
	Except  []string `json:"except,omitempty"`
	Code    uint32   `json:"code"`
	Reason  string   `json:"reason"`

	Interval  *time.Duration `json:"interval,omitempty"` // in nanoseconds
	Bandwidth *int64         `json:"bandwidth,omitempty"`
}

// Disconnect ends connections on all nodes, except the clients named. It returns when the nodes have been told, not when they have
// done it.
//
// Errors are *push.Error: bad request when the target is empty, internal.
func (h *Hub) Disconnect(ctx context.Context, t Target, d push.Disconnect, except []string) error {
	return h.tell(ctx, command{Op: "disconnect", User: t.User, Client: t.Client, Except: except, Code: uint32(d.Code), Reason: d.Reason})
}

// Unsubscribe ends subscriptions to a channel on all nodes; an empty channel means all channels. It returns when the nodes have been
// told; errors are those of Disconnect.
func (h *Hub) Unsubscribe(ctx context.Context, t Target, name string, u push.Unsubscribe) error {
	return h.tell(ctx, command{Op: "unsubscribe", User: t.User, Client: t.Client, Channel: name, Code: u.Code, Reason: u.Reason})
}

func (h *Hub) tell(ctx context.Context, c command) error {
	if c.User == "" && c.Client == "" {
		return push.ErrBadRequest.WithMessage("neither a user nor a client is named")
	}
	payload, err := json.Marshal(c)
	if err == nil {
		err = h.broker.Tell(ctx, "", payload)
	}
	if err != nil {
		return push.ErrInternal.WithMessage("the nodes could not be told")
	}
	return nil
}

// control does what a control message says.
func (h *Hub) control(payload []byte) {
	var c command
	if err := json.Unmarshal(payload, &c); err != nil {
		h.options.Logger.Warn("a control message is not understood", "error", err)
		return
	}
	target := Target{User: c.User, Client: c.Client}
	switch c.Op {
	case "disconnect":
		for _, s := range h.list() {
			if target.fits(&s.info) && !slices.Contains(c.Except, s.info.Client) {
				s.Disconnect(push.Disconnect{Code: uint16(c.Code), Reason: c.Reason}) //nolint:gosec // was a uint16
			}
		}
	case "unsubscribe":
		h.endAll(target, c.Channel, push.Unsubscribe{Code: c.Code, Reason: c.Reason})
	case "pace":
		h.paceAll(target, c.Channel, pace.Bounds{Interval: c.Interval, Bandwidth: c.Bandwidth})
	default:
		h.options.Logger.Warn("a control message is not known", "op", c.Op)
	}
}

// endAll has the server end a client's subscription, or all of them. It looks for them in the topics and waits for no session: one
// whose client does not read its answers must not hold back what is said to others.
func (h *Hub) endAll(target Target, name string, u push.Unsubscribe) {
	for _, t := range h.topics() {
		if name != "" && t.name != name {
			continue
		}
		for _, sub := range t.subscriptions() {
			if target.fits(&sub.session.info) && sub.ends.CompareAndSwap(nil, &u) {
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

// Channels returns the channels with subscribers on this node and how many each has, of those that match the pattern: * stands
// for any number of characters, an empty pattern for all channels.
func (h *Hub) Channels(pattern string) map[string]int {
	out := map[string]int{}
	for _, t := range h.topics() {
		if n := t.subscribers(); n > 0 && (pattern == "" || push.MatchChannel(pattern, t.name)) {
			out[t.name] = n
		}
	}
	return out
}
