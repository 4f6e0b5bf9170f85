package laws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/delta"
	"github.com/sluice-push/sluice/push/protocol"
)

// segment is an uninterrupted part of a stream: all publications after from, up to to, without the reported losses.
type segment struct {
	from, to uint64
	got      []string // offset and data
	losses   []loss
}

// loss is a number of publications that the node reported as lost between two offsets.
type loss struct {
	after, before uint64
	n             int64 // −1: the node does not know how many
}

// version is a received version of a row. Without data it marks a new or resumed subscription.
type version struct{ key, data string }

// feed is one client's state of one channel, over all its connections. It applies what it receives, and records the first violation of a law.
// The client's lock guards it.
type feed struct {
	name     string
	mode     push.Mode
	view     *channel.View // the rows that the client sees; nil: all
	counters *counters

	asked    bool       // a subscribe command is pending
	live     bool       // subscribed, as far as the client knows
	lossy    bool       // the node reports lost publications
	form     push.Delta // the requested form of deltas, and after the answer the granted one
	pos      push.Position
	least    uint64 // the client was here when it began anew: a table has no position before its rows have come
	segments []segment
	rows     map[string]row
	versions []version // versions of rows in the order of arrival since the last quiescent point
	base     string    // data of the newest entry of a stream, the base of the next delta; empty: none
	broken   error
	events   []string // the most recent events
}

func newFeed(name string, t *counters) *feed {
	f := &feed{name: name, counters: t, rows: map[string]row{}}
	if err := f.mode.UnmarshalText([]byte(push.Namespace(name))); err != nil {
		panic(err)
	}
	return f
}

// keptEvents is how many recent events are shown with a failure.
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

// answered handles the answer to a subscribe command.
func (f *feed) answered(a *protocol.SubscribeResult, asked *protocol.SubscribeRequest) {
	f.note("answered: %d publications at %v, recovered %t, delta %t", len(a.Publications), a.Position, a.Recovered, a.Delta)
	if f.live {
		f.fail("subscribed twice")
	}
	f.asked, f.live, f.base, f.least = false, true, "", 0
	// After a resumption, a row that a sweep had already sent may come once more, in an older version from a node that lags.
	f.versions = append(f.versions, version{})
	if f.lossy = bytes.Contains(a.Data, []byte(`"lost":true`)); !a.Delta {
		f.form = push.NoDelta
	}
	switch {
	case a.WasRecovering != asked.Recover || a.Recovered && !asked.Recover:
		f.fail("asked to recover: %t, answered %t, %t", asked.Recover, a.WasRecovering, a.Recovered)
	case a.Recovered && a.Position.Epoch != f.pos.Epoch:
		f.fail("recovered in epoch %q from %q", a.Position.Epoch, f.pos.Epoch)
	case a.Recovered:
		f.counters.resumed.Add(1)
		for k, r := range f.rows {
			r.stale = true
			f.rows[k] = r
		}
	default:
		f.counters.fresh.Add(1)
		if asked.Recover && a.Position.Epoch == f.pos.Epoch {
			f.least = f.pos.Offset
		}
		f.rows, f.pos = map[string]row{}, a.Position
		if f.mode == push.Stream {
			f.checkLeast()
		}
		f.segments = append(f.segments, segment{from: f.pos.Offset, to: f.pos.Offset})
	}
	for i := range a.Publications {
		f.add(&a.Publications[i])
	}
	if len(a.Publications) == 0 && a.Position.Offset > f.pos.Offset {
		f.move(a.Position.Offset)
	}
}

// rollback returns to an earlier position. The node repeats everything after it.
func (f *feed) rollback(to push.Position) {
	if f.pos = to; len(f.segments) == 0 {
		return
	}
	last := &f.segments[len(f.segments)-1]
	last.from, last.to = min(last.from, to.Offset), to.Offset
	last.got = slices.DeleteFunc(last.got, func(s string) bool {
		n, _, _ := strings.Cut(s, " ")
		offset, err := strconv.ParseUint(n, 10, 64)
		return err != nil || offset > to.Offset
	})
	last.losses = slices.DeleteFunc(last.losses, func(l loss) bool { return l.before > to.Offset })
}

// checkLeast checks that a subscription that did not resume begins no earlier than where the client was.
func (f *feed) checkLeast() {
	if f.pos.Offset < f.least {
		f.fail("it begins anew at %d, and was at %d already", f.pos.Offset, f.least)
	}
}

func (f *feed) move(offset uint64) {
	f.pos.Offset = offset
	f.checkLeast()
	if n := len(f.segments); n > 0 {
		f.segments[n-1].to = offset
	}
}

// add handles a received publication.
func (f *feed) add(p *push.Publication) {
	f.note("%v: key %q at %d, delta %t, %d bytes", p.Op, p.Key, p.Offset, p.Delta, len(p.Data))
	f.counters.deliveries.Add(1)
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
	data := f.resolve(p)
	switch f.mode {
	case push.Stream:
		last := &f.segments[len(f.segments)-1]
		last.got = append(last.got, text(p.Offset, data))
		f.base = data
	case push.Value, push.Table:
		f.takeRow(p, data)
	}
	if p.Offset != 0 {
		f.move(p.Offset)
	}
}

// lose records that the node reports n publications before an offset as lost.
func (f *feed) lose(n string, before uint64) {
	lost, err := strconv.ParseInt(n, 10, 64)
	if err != nil || lost == 0 || lost < -1 || f.mode != push.Stream || !f.lossy {
		f.fail("a loss of %q was told before %d", n, before)
		return
	}
	f.counters.losses.Add(1)
	last := &f.segments[len(f.segments)-1]
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

// resolve returns the full data of a publication. It applies a delta to its base.
func (f *feed) resolve(p *push.Publication) string {
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
	f.counters.differences.Add(1)
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

// over handles the end of the subscription, either by the node or with the connection.
func (f *feed) over(why string) {
	f.note("over: %s", why)
	f.asked, f.live = false, false
}

func text(offset uint64, data string) string { return fmt.Sprintf("%d %s", offset, data) }

// missing returns an error that says what the client still lacks of the publications. The caller repeats it until it returns nil.
func (f *feed) missing(w *published, epoch string) error {
	switch {
	case f.broken != nil:
		return f.broken
	case !f.live:
		return errors.New("not subscribed")
	case f.pos.Epoch != f.view.Epoch(epoch):
		return fmt.Errorf("in epoch %q, not %q", f.pos.Epoch, epoch)
	}
	if f.mode == push.Stream {
		if all := w.of(f.name, f.pos.Offset, push.MaxOffset); len(all) > 0 {
			return fmt.Errorf("at %d, the newest is %d", f.pos.Offset, all[len(all)-1].Offset)
		}
		return nil
	}
	want := w.rows(f.name)
	maps.DeleteFunc(want, func(_ string, r row) bool { return !f.view.Matches(map[string]string{"t": r.tags}) })
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

// check compares what was received since the last quiescent point with what was published. Afterwards it discards the record.
func (f *feed) check(w *published) error {
	switch {
	case f.broken != nil:
		return f.broken
	case f.mode == push.Stream:
		return f.checkStream(w)
	default:
		return f.checkRows(w)
	}
}

func (f *feed) checkStream(w *published) error {
	for _, s := range f.segments {
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
	last := f.segments[len(f.segments)-1]
	f.segments = []segment{{from: last.to, to: last.to}}
	return nil
}

// checkRows checks that no row went back to an older version or had one that was never published.
func (f *feed) checkRows(w *published) error {
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
