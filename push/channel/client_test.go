package channel_test

import (
	"fmt"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/delta"
)

// client is a minimal subscriber. It trusts its deliveries and records the first one that breaks a law.
type client struct {
	w    *world
	view *channel.View
	pos  push.Position // the position to resume from; no epoch: never subscribed

	rows   map[string]held
	lossy  bool // entries of an unknown number were missed: a loss of unknown size may be reported
	broken error

	full, deltas, resumes, lost int
}

// held is a row as the client has it.
type held struct {
	offset uint64
	data   string
	bytes  bool // false after the page was loaded again: the position is kept, the bytes are lost
	loose  bool // sent by a sweep, newer than the position with which the client came back: a node that lags may send it older
}

func (c *client) fail(format string, args ...any) {
	if c.broken == nil {
		c.broken = fmt.Errorf(format, args...)
	}
}

// restart is a marked fresh start: a stream begins at a position, and a table is empty and will be filled.
func (c *client) restart(at push.Position) {
	c.pos, c.rows = at, map[string]held{}
}

// resume is a return with a position, after a cut or with a page that was loaded again.
func (c *client) resume(reloaded bool) {
	c.resumes++
	for k, r := range c.rows {
		r.bytes = r.bytes && !reloaded
		r.loose = r.offset > c.pos.Offset
		c.rows[k] = r
	}
}

// apply applies one delivery. The argument delta says that it came as a difference to the entry at Prev.
func (c *client) apply(d channel.Delivery, delta bool) {
	switch d.Kind {
	case channel.Clear:
		c.rows = map[string]held{}
		c.pos.Offset = 0
	case channel.Lost:
		c.applyLost(d)
	case channel.Skip:
		return
	case channel.Put, channel.Gone:
		if c.w.mode == push.Stream {
			c.applyEntry(d)
		} else {
			c.applyRow(d)
		}
		c.checkDelta(d, delta)
	}
	switch {
	case d.Offset == 0:
	case d.Kind != channel.Clear && d.Offset <= c.pos.Offset:
		c.fail("position went from %d to %d", c.pos.Offset, d.Offset)
	default:
		c.pos.Offset = d.Offset
	}
}

// applyEntry checks that a stream entry is the next one for the client.
func (c *client) applyEntry(d channel.Delivery) {
	for _, p := range c.w.between(c.pos.Offset, d.Entry.Offset-1) {
		if p.Op != push.Clear && c.view.Matches(p.Tags) {
			c.fail("entry %d was passed over silently between %d and %d", p.Offset, c.pos.Offset, d.Entry.Offset)
		}
	}
}

func (c *client) applyLost(d channel.Delivery) {
	missed := 0
	for _, p := range c.w.between(c.pos.Offset, d.Offset) {
		if p.Op != push.Clear {
			missed++
		}
	}
	c.lost++
	if d.Lost < 0 {
		if !c.lossy {
			c.fail("a loss of unknown size was told, but nothing stood in the way of counting")
		}
	} else if int(d.Lost) > missed || int(d.Lost) < missed && c.view == nil {
		c.fail("lost %d was told, %d were missed between %d and %d", d.Lost, missed, c.pos.Offset, d.Offset)
	}
	c.lossy = false
}

func (c *client) applyRow(d channel.Delivery) {
	key := c.w.rowKey(d.Entry.Key)
	if have, ok := c.rows[key]; ok && have.offset > d.Entry.Offset && !have.loose {
		c.fail("row %s went back from %d to %d", key, have.offset, d.Entry.Offset)
	}
	if d.Kind == channel.Gone {
		delete(c.rows, key)
	}
}

func (c *client) checkDelta(d channel.Delivery, delta bool) {
	if d.Kind == channel.Gone {
		return
	}
	key := c.w.rowKey(d.Entry.Key)
	if c.w.mode == push.Stream {
		key = "" // one base a subscription: the entry before
	}
	have := c.rows[key]
	if delta {
		c.deltas++
		if have.offset != d.Entry.Prev || !have.bytes {
			c.fail("wrong base: row %s is sent as %d→%d, the client holds %d (bytes %t)",
				key, d.Entry.Prev, d.Entry.Offset, have.offset, have.bytes)
		}
		c.checkChange(d, have.data)
	} else {
		c.full++
	}
	c.rows[key] = held{offset: d.Entry.Offset, data: string(d.Entry.Data), bytes: true}
}

// key returns the key of the publication at an offset.
func (c *client) key(offset uint64) string {
	for _, p := range c.w.between(offset-1, offset) {
		return p.Key
	}
	return "none"
}

// checkChange applies the difference to the client's data.
func (c *client) checkChange(d channel.Delivery, have string) {
	if !d.Delta || d.Change == nil && d.Entry.Key != c.key(d.Entry.Prev) {
		return // it was planted, or there is nothing to build on for clients that go by keys
	}
	fossil, err := delta.ApplyFossil(nil, []byte(have), d.Change.Diff(push.Fossil), 1<<10)
	if err != nil || string(fossil) != string(d.Entry.Data) {
		c.fail("the fossil delta of %d makes %q of %q: %v", d.Entry.Offset, fossil, have, err)
	}
	merged, err := delta.ApplyMergePatch(nil, []byte(have), d.Change.Diff(push.Merge))
	if err != nil || string(merged) != string(d.Entry.Data) {
		c.fail("the merge patch of %d makes %q of %q: %v", d.Entry.Offset, merged, have, err)
	}
}

// converged compares the client's rows with the true ones.
func (c *client) converged() error {
	if c.w.mode == push.Stream {
		return nil // that every entry came was checked one by one
	}
	want := c.w.table(c.view)
	for k, p := range want {
		if have, ok := c.rows[k]; !ok || have.offset != p.Offset || have.data != string(p.Data) {
			return fmt.Errorf("row %s: the client has %d, the truth is %d", k, have.offset, p.Offset)
		}
	}
	for k, r := range c.rows {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("row %s at %d is a ghost", k, r.offset)
		}
	}
	return nil
}
