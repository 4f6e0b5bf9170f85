package hub

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// RowsRequest selects a page of a table's rows.
type RowsRequest struct {
	Channel string
	// Since and Cursor are Position and Cursor of the page before; nil and empty for the first page.
	Since  *push.Position
	Cursor string
	// Budget bounds the page. Less than one entry: no rows.
	Budget channel.Budget
	// Delta is the form of differences for which the client will ask, with Keyed, when it subscribes.
	Delta push.Delta
}

// Rows is a page of a table.
type Rows struct {
	// Position is the channel's position when the first page was read. The client still needs the changes since then.
	Position push.Position
	// Deliveries are rows, each of kind Put with its own offset. There may be none although there is another page.
	Deliveries []channel.Delivery
	// Cursor is where the next page begins; empty after the last page. It is valid at this hub only, as long as the channel is loaded.
	Cursor string
	// Delta is the form of differences that the subscription will get.
	Delta push.Delta
}

// Rows returns rows of a table, page by page, to a client that is going to subscribe. The hub keeps no state between two pages. After the last
// page, the client subscribes with Position as Since, and with Table and Joins set. The table is then whole.
//
// Errors are *push.Error: those of Subscribe, bad request if the channel is no table, and push.ErrUnrecoverablePosition. After the latter, the
// client has to begin with the first page again: the cursor is not valid any more, or removals since the position are no longer known.
func (s *Session) Rows(ctx context.Context, r RowsRequest) (out Rows, err error) {
	n, err := s.hub.tableOf(r.Channel)
	if err == nil {
		err = s.admit(r.Channel)
	}
	if err != nil {
		return out, err
	}
	out.Delta = n.delta(&SubscribeRequest{Delta: r.Delta, Keyed: true})
	err = n.withTopic(ctx, r.Channel, func(t *topic) error {
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

// tableOf is namespaceOf for a channel that has to be a table.
func (h *Hub) tableOf(name string) (*namespace, error) {
	n, err := h.namespaceOf(name)
	if err == nil && n.Mode != push.Table {
		err = push.ErrBadRequest.WithMessage("namespace %q has mode %v, not table: subscribe without a map", n.Name, n.Mode)
	}
	return n, err
}

// rowsCursorLocked returns the cursor at a slot. A slot is valid in one log only, so the cursor names hub, topic and generation.
func (t *topic) rowsCursorLocked(slot int) string {
	return fmt.Sprintf("%.12s.%d.%d.%d", t.part.hub.id, t.number, t.generation.Load(), slot)
}

// slotLocked returns the slot of a cursor, or a negative number if the cursor is not of the topic's present log.
func (t *topic) slotLocked(cursor string) int {
	slot, err := strconv.ParseInt(cursor[strings.LastIndexByte(cursor, '.')+1:], 10, 32)
	if err != nil || t.rowsCursorLocked(int(slot)) != cursor {
		return -1
	}
	return int(slot)
}
