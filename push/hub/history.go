package hub

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// HistoryRequest selects a part of a channel's history.
type HistoryRequest struct {
	// Limit is the number of entries at most; 0: only the position, negative: all entries.
	Limit int
	// Since excludes the entries at or before it, or with Reverse those at or after it; nil for no bound.
	Since *push.Position
	// Reverse asks for the newest entries first.
	Reverse bool
}

// History is the answer to a [HistoryRequest]. In value and table mode the entries are the rows. It has the entries that have arrived at this
// node, up to Position. A publication that the broker has just acknowledged to another node may arrive a little later.
type History struct {
	Position push.Position
	Entries  []*channel.Entry
}

// History returns the kept entries of a channel. Errors are *push.Error. If the position is of another epoch, or entries after it are no longer
// kept, the error is push.ErrUnrecoverablePosition.
func (h *Hub) History(ctx context.Context, name string, r HistoryRequest) (History, error) {
	var out History
	n, err := h.namespaceOf(name)
	if err != nil {
		return out, err
	}
	err = n.withTopic(ctx, name, func(t *topic) (err error) {
		out, err = t.historyLocked(n, r)
		return err
	})
	return out, err
}

// withTopic loads the topic of a channel and calls f with it. f runs with the topic's lock held.
func (n *namespace) withTopic(ctx context.Context, name string, f func(t *topic) error) error {
	t, err := n.acquire(ctx, name)
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

// oldestLocked returns the offset up to which History shows no entries.
func (t *topic) oldestLocked() uint64 {
	return max(t.log.Beyond(t.part.namespace.History), t.log.Floor())
}

func (t *topic) historyLocked(n *namespace, r HistoryRequest) (History, error) {
	out := History{Position: t.positionLocked(nil)}
	t.log.Expire(time.Now().UnixMilli())
	oldest := t.oldestLocked()
	if r.Since != nil && *r.Since == (push.Position{}) && !r.Reverse {
		r.Since = nil // all entries
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
