package hub

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// RowsRequest says which rows of a table a client is to have next.
type RowsRequest struct {
	Channel string
	// Since and Cursor are those of the page before; nil and empty for the first.
	Since  *push.Position
	Cursor string
	// Budget bounds the page. Less than one entry: nothing.
	Budget channel.Budget
	// Delta is the form of differences that the client is going to ask for, keyed, when it subscribes.
	Delta push.Delta
}

// Rows is a page of a table.
type Rows struct {
	// Position is where the channel was when the first page was read: what has changed since is what the client needs besides.
	Position push.Position
	// Deliveries are rows, each of kind Put with its own offset. There may be none although there is another page.
	Deliveries []channel.Delivery
	// Cursor is where the next page begins; empty when there is none. It means something to this hub only, as long as the channel is loaded.
	Cursor string
	// Delta is the form that it is going to get.
	Delta push.Delta
}

// Rows returns rows of a table to a client that is going to subscribe, page by page. The hub keeps nothing of it between two pages. When
// the client has the last one it subscribes with the position as Since, and Table and Joins: the table is then whole.
//
// Errors are *push.Error: those of Subscribe, bad request when the channel is no table, and push.ErrUnrecoverablePosition when the client has
// to begin anew, because the page cannot be continued from the cursor or because removals since the position are not known any more.
func (s *Session) Rows(ctx context.Context, r RowsRequest) (out Rows, err error) {
	n, err := s.hub.tableOf(r.Channel)
	if err == nil {
		err = s.admit(r.Channel)
	}
	if err != nil {
		return out, err
	}
	out.Delta = n.delta(&SubscribeRequest{Delta: r.Delta, Keyed: true})
	err = n.look(ctx, r.Channel, func(t *topic) error {
		slot := 0
		out.Position = t.positionLocked(nil)
		if r.Since != nil {
			known := r.Since.Epoch == out.Position.Epoch && r.Since.Offset >= t.log.Floor() && r.Since.Offset <= out.Position.Offset
			if slot = t.slotLocked(r.Cursor); !known || slot < 0 {
				return push.ErrUnrecoverablePosition
			}
			out.Position = *r.Since
		}
		if out.Deliveries, slot = t.log.Rows(slot, r.Budget, nil); slot >= 0 {
			out.Cursor = t.rowsCursorLocked(slot)
		}
		return nil
	})
	return out, err
}

// tableOf is namespaceOf a channel that has to be a table.
func (h *Hub) tableOf(name string) (*namespace, error) {
	n, err := h.namespaceOf(name)
	if err == nil && n.Mode != push.Table {
		err = push.ErrBadRequest.WithMessage("channels of namespace %q are no tables but of mode %v: subscribe to them without a map", n.Name, n.Mode)
	}
	return n, err
}

// rowsCursorLocked is the cursor at a slot: slots are those of one log of one topic of one hub.
func (t *topic) rowsCursorLocked(slot int) string {
	return fmt.Sprintf("%.12s.%d.%d.%d", t.part.hub.id, t.number, t.life.Load(), slot)
}

// slotLocked returns the slot of a cursor, less than 0 if it is not one of the topic as it is now.
func (t *topic) slotLocked(cursor string) int {
	slot, err := strconv.ParseInt(cursor[strings.LastIndexByte(cursor, '.')+1:], 10, 32)
	if err != nil || t.rowsCursorLocked(int(slot)) != cursor {
		return -1
	}
	return int(slot)
}
