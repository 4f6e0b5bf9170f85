package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/delta"
	"github.com/sluice-push/sluice/push/hub"
)

// truth has the acknowledged publications, by epoch and channel.
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

// of returns the publications of a channel in one epoch, in order.
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
	stale  bool // from before the client came back: no difference may build on it
	loose  bool // sent by a sweep, newer than the position with which the client came back: a node that lags may send it older
}

// stretch is what came of a stream without a break: everything after one offset, up to another.
type stretch struct {
	epoch    string
	from, to uint64
	frames   []string // offset and data, or "lost" and how many
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
	lossy     bool   // it is told what it lost
	base      string // data of the newest entry of a stream, on which a difference may build; empty: none
	broken    error

	fresh, recovered, ended, differences, lost, unknown int
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
	f.live, f.lossy, f.base = true, a.Lost, ""
	if a.Recovered {
		f.recovered++
		if a.Position.Epoch != f.pos.Epoch {
			f.fail("recovered in epoch %q from %q", a.Position.Epoch, f.pos.Epoch)
		}
		for k, r := range f.rows {
			r.loose, r.stale = r.offset > f.pos.Offset, true
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
	if in.lost != 0 {
		f.lose(in.lost)
	}
	if in.form != push.NoDelta {
		f.patch(&in)
	}
	f.base = in.data
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

// lose is told before an entry how many are lost.
func (f *feed) lose(n int64) {
	switch {
	case !f.lossy || f.mode != push.Stream:
		f.fail("%d entries are lost, which it did not want to be told", n)
		return
	case n < 0:
		f.unknown++
	default:
		f.lost += int(n)
	}
	f.base = ""
	last := &f.stretches[len(f.stretches)-1]
	last.frames = append(last.frames, lostText(n))
}

// patch makes the data of a difference.
func (f *feed) patch(in *frame) {
	base := f.base
	if f.mode != push.Stream {
		base = f.rows[in.key].data
		if f.rows[in.key].stale {
			base = ""
		}
	}
	f.differences++
	var data []byte
	err := errors.New("there is nothing to build on")
	switch {
	case base == "":
	case in.form == push.Fossil:
		data, err = delta.ApplyFossil(nil, []byte(base), []byte(in.data), 1<<20)
	case in.form == push.Merge:
		data, err = delta.ApplyMergePatch(nil, []byte(base), []byte(in.data))
	}
	if err != nil {
		f.fail("%s %q of entry %d to %q: %v", in.form, in.data, in.offset, base, err)
	}
	in.data = string(data)
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

func lostText(n int64) string { return fmt.Sprintf("lost %d", n) }

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

// whole checks that each stretch of a stream held all that was published there, in order, once, but for what it was told is lost.
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
		if err := s.compare(want); err != nil {
			return fmt.Errorf("%s: between %d and %d: %w", f.name, s.from, s.to, err)
		}
	}
	return nil
}

// compare compares what came with what was published.
func (s *stretch) compare(want []string) error {
	at := 0
	for i, text := range s.frames {
		var lost int
		switch n, _ := fmt.Sscanf(text, "lost %d", &lost); {
		case n == 1 && lost >= 0:
			at += lost
		case n == 1: // the number is not known: up to the next publication
			for at < len(want) && want[at] != s.frames[i+1] {
				at++
			}
		case at >= len(want) || want[at] != text:
			return fmt.Errorf("%q came as number %d, which is %q", text, at, want[min(at, len(want)):min(at+1, len(want))])
		default:
			at++
		}
	}
	if at != len(want) {
		return fmt.Errorf("%d of %d publications came, or were told to be lost", at, len(want))
	}
	return nil
}
