package hub

import (
	"context"
	"time"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// HistoryRequest selects a part of a channel's history.
type HistoryRequest = channel.HistoryRequest

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
	err = n.withTopic(ctx, name, func(t *topic) error {
		var ok bool
		out.Position = t.positionLocked(nil)
		t.log.Expire(time.Now().UnixMilli())
		if out.Entries, ok = t.log.History(r, t.oldestLocked()); !ok {
			out = History{}
			return push.ErrUnrecoverablePosition
		}
		return nil
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
