package hub_test

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/hub"
)

// truth is what was acknowledged, by life and channel.
type truth struct {
	mu    sync.Mutex
	lives map[push.Position]push.Publication // by epoch and offset; offsets are unique in a partition, partitions have epochs
	names map[push.Position]string
}

func newTruth() *truth {
	return &truth{lives: map[push.Position]push.Publication{}, names: map[push.Position]string{}}
}

func (w *truth) add(name string, at push.Position, p push.Publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.Offset = at.Offset
	w.lives[at], w.names[at] = p, name
}

// of returns what was published to a channel in one life, in order.
func (w *truth) of(name, epoch string) []push.Publication {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []push.Publication
	for at, p := range w.lives {
		if at.Epoch == epoch && w.names[at] == name {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b push.Publication) int { return int(a.Offset) - int(b.Offset) })
	return out
}

// rows returns the rows of a table as they have to be in the end.
func (w *truth) rows(name, epoch string) map[string]row {
	out := map[string]row{}
	for _, p := range w.of(name, epoch) {
		switch p.Op {
		case push.Set:
			out[p.Key] = row{offset: p.Offset, data: string(p.Data)}
		case push.Remove:
			delete(out, p.Key)
		case push.Clear:
			clear(out)
		}
	}
	return out
}

// row is a row as a client has it.
type row struct {
	offset uint64
	data   string
	loose  bool // sent by a sweep, newer than the position with which the client came back: a node that lags may send it older
}

// stretch is what came of a stream without a break: everything after one offset, up to another.
type stretch struct {
	epoch    string
	from, to uint64
	frames   []string // offset and data
}

// feed is one client's view of one channel, across all its connections. It believes what it is sent, and notes the first thing that
// breaks a law. Its owner locks.
type feed struct {
	name string
	mode push.Mode

	live      bool // subscribed, as far as the client knows
	pos       push.Position
	stretches []stretch
	rows      map[string]row
	broken    error

	fresh, recovered, ended int
}

func newFeed(name string) *feed {
	f := &feed{name: name, rows: map[string]row{}}
	mode := push.Namespace(name)
	if err := f.mode.UnmarshalText([]byte(mode)); err != nil {
		panic(err)
	}
	return f
}

func (f *feed) fail(format string, args ...any) {
	if f.broken == nil {
		f.broken = fmt.Errorf("%s: "+format, append([]any{f.name}, args...)...)
	}
}

// since is the position to come back with, nil if there is none.
func (f *feed) since() *push.Position {
	if f.pos.Epoch == "" {
		return nil
	}
	at := f.pos
	return &at
}

// answered is the answer to a subscribe command.
func (f *feed) answered(a hub.Subscribed) {
	if f.live {
		f.fail("subscribed twice")
	}
	f.live = true
	if a.Recovered {
		f.recovered++
		if a.Position.Epoch != f.pos.Epoch {
			f.fail("recovered in epoch %q from %q", a.Position.Epoch, f.pos.Epoch)
		}
		for k, r := range f.rows {
			r.loose = r.offset > f.pos.Offset
			f.rows[k] = r
		}
	} else {
		f.fresh++
		f.rows = map[string]row{}
		f.pos = push.Position{Epoch: a.Position.Epoch}
		if f.mode == push.Stream {
			f.pos = a.Position
		}
		f.stretches = append(f.stretches, stretch{epoch: f.pos.Epoch, from: f.pos.Offset, to: f.pos.Offset})
	}
	for i := range a.Deliveries {
		d := &a.Deliveries[i]
		if d.Kind != channel.Put && d.Kind != channel.Gone {
			f.fail("a delivery of kind %d is in an answer", d.Kind)
			return
		}
		in := frame{kind: "put", channel: f.name, offset: d.Entry.Offset, key: d.Entry.Key, data: string(d.Entry.Data)}
		if d.Kind == channel.Gone {
			in.kind = "gone"
		}
		if d.Offset != 0 {
			in.at = push.Position{Epoch: a.Position.Epoch, Offset: d.Offset}
		}
		f.take(in)
	}
	if a.Position.Offset < f.pos.Offset {
		f.fail("the answer's position %d is below that of its contents, %d", a.Position.Offset, f.pos.Offset)
	}
	f.move(a.Position.Offset)
}

func (f *feed) move(offset uint64) {
	f.pos.Offset = offset
	if n := len(f.stretches); n > 0 {
		f.stretches[n-1].to = offset
	}
}

// take is a frame.
func (f *feed) take(in frame) {
	if !f.live {
		f.fail("%s %d came before the answer or after the end", in.kind, in.offset)
		return
	}
	switch {
	case in.kind == "end":
		f.live = false
		f.ended++
		return
	case in.at.Epoch != "" && (in.at.Epoch != f.pos.Epoch || in.at.Offset <= f.pos.Offset):
		f.fail("the position went from %v to %v", f.pos, in.at)
	case in.at.Epoch == "" && f.mode == push.Stream:
		f.fail("entry %d has no position", in.offset)
	}
	switch f.mode {
	case push.Stream:
		last := &f.stretches[len(f.stretches)-1]
		last.frames = append(last.frames, entryText(in.offset, in.data))
	case push.Value, push.Table:
		f.takeRow(in)
	}
	if in.at.Epoch != "" {
		f.move(in.at.Offset)
	}
}

func (f *feed) takeRow(in frame) {
	have, held := f.rows[in.key]
	if held && have.offset > in.offset && !have.loose {
		f.fail("row %q went back from %d to %d", in.key, have.offset, in.offset)
	}
	if in.kind == "gone" {
		delete(f.rows, in.key)
		return
	}
	f.rows[in.key] = row{offset: in.offset, data: in.data}
}

// cut is the end of the connection.
func (f *feed) cut() { f.live = false }

func entryText(offset uint64, data string) string { return fmt.Sprintf("%d %s", offset, data) }

// level reports whether a client at rest has what the truth says, and what is wrong if it has not.
func (f *feed) level(w *truth, epoch string) error {
	switch {
	case f.broken != nil:
		return f.broken
	case !f.live:
		return fmt.Errorf("%s: not subscribed", f.name)
	case f.pos.Epoch != epoch:
		return fmt.Errorf("%s: in epoch %q, not %q", f.name, f.pos.Epoch, epoch)
	}
	if f.mode == push.Stream {
		all := w.of(f.name, epoch)
		if len(all) > 0 && f.pos.Offset < all[len(all)-1].Offset {
			return fmt.Errorf("%s: at %d, the newest is %d", f.name, f.pos.Offset, all[len(all)-1].Offset)
		}
		return nil
	}
	want := w.rows(f.name, epoch)
	for k, r := range want {
		if have, ok := f.rows[k]; !ok || have.offset != r.offset || have.data != r.data {
			return fmt.Errorf("%s: row %q is %v, not %v", f.name, k, have, r)
		}
	}
	for k, r := range f.rows {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("%s: row %q at %d is a ghost", f.name, k, r.offset)
		}
	}
	return nil
}

// whole checks that each stretch of a stream held all that was published there, in order, once.
func (f *feed) whole(w *truth) error {
	for _, s := range f.stretches {
		if f.mode != push.Stream {
			return nil
		}
		var want []string
		for _, p := range w.of(f.name, s.epoch) {
			if p.Offset > s.from && p.Offset <= s.to {
				want = append(want, entryText(p.Offset, string(p.Data)))
			}
		}
		if !slices.Equal(s.frames, want) {
			return fmt.Errorf("%s: between %d and %d there came %d entries, %d were published: first difference at %d",
				f.name, s.from, s.to, len(s.frames), len(want), firstDifference(s.frames, want))
		}
	}
	return nil
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
