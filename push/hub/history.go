package hub

import (
	"context"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// HistoryRequest says what part of a channel's history is asked for.
type HistoryRequest struct {
	// Limit is the most entries; 0: only the position, negative: all there are.
	Limit int
	// Since excludes what is at or before it, or with Reverse what is at or after it; nil for no bound.
	Since *push.Position
	// Reverse asks for the newest first.
	Reverse bool
}

// History is the answer. In value and table mode the entries are the rows. It is what this node has heard of: what another one has just
// acknowledged may come a little later, as it does to subscribers; the position says up to where.
type History struct {
	Position push.Position
	Entries  []*channel.Entry
}

// History returns what is kept of a channel. Errors are *push.Error; a position of another epoch, or one from which on the history
// is no longer whole, is push.ErrUnrecoverablePosition.
func (h *Hub) History(ctx context.Context, name string, r HistoryRequest) (History, error) {
	var out History
	n, err := h.namespaceOf(name)
	if err != nil {
		return out, err
	}
	err = n.look(ctx, name, func(t *topic) (err error) {
		out, err = t.historyLocked(n, r)
		return err
	})
	return out, err
}

// look calls f with the topic of a channel, which is locked and loaded.
func (n *namespace) look(ctx context.Context, name string, f func(t *topic) error) error {
	t, err := n.partition(name).acquire(ctx, name)
	if err != nil {
		return err
	}
	defer t.release()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usableLocked(); err != nil {
		return err
	}
	return f(t)
}

// oldestLocked is the position before which nothing is shown.
func (t *topic) oldestLocked() uint64 {
	return max(t.log.Beyond(t.part.namespace.History), t.log.Floor())
}

func (t *topic) historyLocked(n *namespace, r HistoryRequest) (History, error) {
	out := History{Position: t.positionLocked(nil)}
	t.log.Expire(nowMillis())
	oldest := t.oldestLocked()
	if r.Since != nil && *r.Since == (push.Position{}) && !r.Reverse {
		r.Since = nil // all there is
	}
	switch {
	case r.Since == nil && r.Reverse:
		out.Entries = t.log.Before(push.MaxOffset+1, r.Limit)
	case r.Since == nil && n.Mode == push.Stream:
		out.Entries = t.log.Since(oldest, r.Limit)
	case r.Since == nil:
		out.Entries = t.log.Since(0, r.Limit) // rows may be older than the removals that are remembered
	case r.Since.Epoch != "" && r.Since.Epoch != out.Position.Epoch, r.Since.Offset < oldest && !r.Reverse,
		r.Reverse && n.Mode == push.Stream && oldest > 0 && r.Since.Offset <= oldest:
		return History{}, push.ErrUnrecoverablePosition
	case r.Reverse:
		out.Entries = t.log.Before(r.Since.Offset, r.Limit)
	default:
		out.Entries = t.log.Since(r.Since.Offset, r.Limit)
	}
	for n.Mode == push.Stream && len(out.Entries) > 0 && r.Reverse && out.Entries[len(out.Entries)-1].Offset <= oldest {
		out.Entries = out.Entries[:len(out.Entries)-1]
	}
	return out, nil
}
