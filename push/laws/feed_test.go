package laws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/delta"
	"github.com/sluice-push/sluice/push/protocol"
)

// stretch is what came of a stream without a break: everything behind one offset, up to another, but for what the client was told it lost.
type stretch struct {
	from, to uint64
	got      []string // offset and data
	losses   []loss
}

// loss is what was said to be missing between two offsets.
type loss struct {
	after, before uint64
	n             int64 // −1: nobody knows how many
}

// version is a row as it came; without data, the client began or came back.
type version struct{ key, data string }

// feed is what one client has of one channel, over all its connections. It believes what it is sent, and notes the first thing that
// breaks a law. Its client locks.
type feed struct {
	name  string
	mode  push.Mode
	tally *tally

	asked     bool       // to subscribe, and was not answered
	live      bool       // subscribed, as far as it knows
	lossy     bool       // is told what it loses
	form      push.Delta // asked for, and then what was agreed to
	pos       push.Position
	stretches []stretch
	rows      map[string]row
	versions  []version // of rows, as they came since the last quiet point
	base      string    // data of the newest entry of a stream, on which a difference may build; empty: none
	broken    error
	events    []string // the last of them
}

func newFeed(name string, t *tally) *feed {
	f := &feed{name: name, tally: t, rows: map[string]row{}}
	if err := f.mode.UnmarshalText([]byte(push.Namespace(name))); err != nil {
		panic(err)
	}
	return f
}

// keptEvents is how many of the last events are shown with what is wrong.
const keptEvents = 30

func (f *feed) note(format string, args ...any) {
	if len(f.events) == keptEvents {
		f.events = f.events[1:]
	}
	f.events = append(f.events, fmt.Sprintf(format, args...))
}

func (f *feed) fail(format string, args ...any) {
	if f.broken == nil {
		f.broken = fmt.Errorf("%s: "+format, append([]any{f.name}, args...)...)
	}
}

// answered is the answer to a subscribe command.
func (f *feed) answered(a *protocol.SubscribeResult, asked *protocol.SubscribeRequest) {
	f.note("answered: %d publications at %v, recovered %t, delta %t", len(a.Publications), a.Position, a.Recovered, a.Delta)
	if f.live {
		f.fail("subscribed twice")
	}
	f.asked, f.live, f.base = false, true, ""
	f.versions = append(f.versions, version{}) // a row that a sweep has sent may come once more, and older, of a node that lags
	if f.lossy = bytes.Contains(a.Data, []byte(`"lost":true`)); !a.Delta {
		f.form = push.NoDelta
	}
	switch {
	case a.WasRecovering != asked.Recover || a.Recovered && !asked.Recover:
		f.fail("asked to recover: %t, answered %t, %t", asked.Recover, a.WasRecovering, a.Recovered)
	case a.Recovered && a.Position.Epoch != f.pos.Epoch:
		f.fail("recovered in epoch %q from %q", a.Position.Epoch, f.pos.Epoch)
	case a.Recovered:
		f.tally.resumed.Add(1)
		for k, r := range f.rows {
			r.stale = true
			f.rows[k] = r
		}
	default:
		f.tally.fresh.Add(1)
		f.rows, f.pos = map[string]row{}, a.Position
		f.stretches = append(f.stretches, stretch{from: f.pos.Offset, to: f.pos.Offset})
	}
	for i := range a.Publications {
		f.take(&a.Publications[i])
	}
	if len(a.Publications) == 0 && a.Position.Offset > f.pos.Offset {
		f.move(a.Position.Offset)
	}
}

// rollback goes back to a position where the feed was before, since when everything comes again.
func (f *feed) rollback(to push.Position) {
	if f.pos = to; len(f.stretches) == 0 {
		return
	}
	last := &f.stretches[len(f.stretches)-1]
	last.from, last.to = min(last.from, to.Offset), to.Offset
	last.got = slices.DeleteFunc(last.got, func(s string) bool {
		n, _, _ := strings.Cut(s, " ")
		offset, err := strconv.ParseUint(n, 10, 64)
		return err != nil || offset > to.Offset
	})
	last.losses = slices.DeleteFunc(last.losses, func(l loss) bool { return l.before > to.Offset })
}

func (f *feed) move(offset uint64) {
	f.pos.Offset = offset
	if n := len(f.stretches); n > 0 {
		f.stretches[n-1].to = offset
	}
}

// take is a publication that came.
func (f *feed) take(p *push.Publication) {
	f.note("%v: key %q at %d, delta %t, %d bytes", p.Op, p.Key, p.Offset, p.Delta, len(p.Data))
	f.tally.deliveries.Add(1)
	switch {
	case !f.live:
		f.fail("publication %d came before the answer or after the end", p.Offset)
		return
	case p.Offset != 0 && p.Offset <= f.pos.Offset:
		f.fail("the position went from %d to %d", f.pos.Offset, p.Offset)
	case p.Offset == 0 && f.mode == push.Stream:
		f.fail("a publication has no position")
	}
	if n, ok := p.Tags[push.TagLost]; ok {
		f.lose(n, p.Offset)
	}
	data := f.whole(p)
	switch f.mode {
	case push.Stream:
		last := &f.stretches[len(f.stretches)-1]
		last.got = append(last.got, text(p.Offset, data))
		f.base = data
	case push.Value, push.Table:
		f.takeRow(p, data)
	}
	if p.Offset != 0 {
		f.move(p.Offset)
	}
}

// lose notes that publications before one are said to be lost.
func (f *feed) lose(n string, before uint64) {
	lost, err := strconv.ParseInt(n, 10, 64)
	if err != nil || lost == 0 || lost < -1 || f.mode != push.Stream || !f.lossy {
		f.fail("a loss of %q was told before %d", n, before)
		return
	}
	f.tally.losses.Add(1)
	last := &f.stretches[len(f.stretches)-1]
	last.losses = append(last.losses, loss{f.pos.Offset, before, lost})
	f.base = ""
}

func (f *feed) takeRow(p *push.Publication, data string) {
	if p.Op == push.Remove {
		delete(f.rows, p.Key)
		return
	}
	f.rows[p.Key] = row{data: data, tags: p.Tags["t"]}
	f.versions = append(f.versions, version{p.Key, data})
}

// whole returns the data of a publication that may be a difference.
func (f *feed) whole(p *push.Publication) string {
	data := p.Data
	if p.Op != push.Set {
		return ""
	}
	if f.form == push.Fossil {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			f.fail("data %q of a feed with Fossil deltas is no string: %v", data, err)
		}
		data = []byte(s)
	}
	if !p.Delta {
		return string(data)
	}
	f.tally.differences.Add(1)
	base := f.base
	if f.mode != push.Stream {
		if base = f.rows[p.Key].data; f.rows[p.Key].stale {
			base = ""
		}
	}
	var made []byte
	err := errors.New("there is nothing to build on")
	switch {
	case base == "":
	case f.form == push.Fossil:
		made, err = delta.ApplyFossil(nil, []byte(base), data, 1<<20)
	case f.form == push.Merge:
		made, err = delta.ApplyMergePatch(nil, []byte(base), data)
	default:
		err = errors.New("no differences were agreed to")
	}
	if err != nil {
		f.fail("difference %q at %d to %q: %v", data, p.Offset, base, err)
	}
	return string(made)
}

// over is the end of the subscription: by the server, or with the connection.
func (f *feed) over(why string) {
	f.note("over: %s", why)
	f.asked, f.live = false, false
}

func text(offset uint64, data string) string { return fmt.Sprintf("%d %s", offset, data) }

// level says what a client at rest lacks of what was published. It is asked again while there is something.
func (f *feed) level(w *truth, epoch string) error {
	switch {
	case f.broken != nil:
		return f.broken
	case !f.live:
		return errors.New("not subscribed")
	case f.pos.Epoch != epoch:
		return fmt.Errorf("in epoch %q, not %q", f.pos.Epoch, epoch)
	}
	if f.mode == push.Stream {
		if all := w.of(f.name, f.pos.Offset, push.MaxOffset); len(all) > 0 {
			return fmt.Errorf("at %d, the newest is %d", f.pos.Offset, all[len(all)-1].Offset)
		}
		return nil
	}
	want := w.rows(f.name)
	for k, r := range want {
		if have, ok := f.rows[k]; !ok || have.data != r.data || have.tags != r.tags {
			return fmt.Errorf("row %q is %v, not %v", k, have, r)
		}
	}
	for k, r := range f.rows {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("row %q, %v, is a ghost", k, r)
		}
	}
	return nil
}

// check compares what came since the last quiet point with what was published, and forgets it.
func (f *feed) check(w *truth) error {
	switch {
	case f.broken != nil:
		return f.broken
	case f.mode == push.Stream:
		return f.checkStream(w)
	default:
		return f.checkRows(w)
	}
}

func (f *feed) checkStream(w *truth) error {
	for _, s := range f.stretches {
		var want []string
		missing := make([]int64, len(s.losses))
		for _, p := range w.of(f.name, s.from, s.to) {
			i := slices.IndexFunc(s.losses, func(l loss) bool { return p.Offset > l.after && p.Offset < l.before })
			if i < 0 {
				want = append(want, text(p.Offset, string(p.Data)))
			} else {
				missing[i]++
			}
		}
		for i, l := range s.losses {
			if l.n > 0 && l.n != missing[i] {
				return fmt.Errorf("%s: %d were said to be lost between %d and %d, there are %d", f.name, l.n, l.after, l.before, missing[i])
			}
		}
		if !slices.Equal(s.got, want) {
			return fmt.Errorf("%s: between %d and %d there came %d publications, %d were published; first difference: %s",
				f.name, s.from, s.to, len(s.got), len(want), firstDifference(s.got, want))
		}
	}
	last := f.stretches[len(f.stretches)-1]
	f.stretches = []stretch{{from: last.to, to: last.to}}
	return nil
}

// checkRows looks whether a row went back to an older version, or had one that was never published.
func (f *feed) checkRows(w *truth) error {
	offsets := map[version]uint64{}
	for _, p := range w.of(f.name, 0, push.MaxOffset) {
		offsets[version{p.Key, string(p.Data)}] = p.Offset
	}
	newest := map[string]uint64{}
	for _, v := range f.versions {
		if v.data == "" {
			clear(newest)
			continue
		}
		offset, known := offsets[v]
		switch {
		case w.isRepeated(v):
			continue
		case !known:
			return fmt.Errorf("%s: row %q came as %q, which nobody published", f.name, v.key, v.data)
		case offset < newest[v.key]:
			return fmt.Errorf("%s: row %q went back from %d to %d", f.name, v.key, newest[v.key], offset)
		}
		newest[v.key] = offset
	}
	f.versions = nil
	return nil
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q instead of %q", a[i], b[i])
		}
	}
	if len(a) > len(b) {
		return fmt.Sprintf("%q should not be there", a[len(b)])
	}
	return fmt.Sprintf("%q is missing", b[len(a)])
}
