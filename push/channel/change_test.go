package channel_test

import (
	"fmt"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
	"github.com/sluice-push/sluice/push/delta"
)

// document returns data that differs little from one number to the next.
func document(n uint64) []byte {
	return fmt.Appendf(nil, `{"symbol":"the same in all of them","n":%d}`, n)
}

// TestChanges: the changes that a log keeps, and for how long.
func TestChanges(t *testing.T) {
	at := func(offset uint64, key string) push.Publication {
		return push.Publication{Offset: offset, Key: key, Data: document(offset)}
	}
	for _, tt := range []struct {
		mode push.Mode
		pubs []push.Publication
		want string // offsets of the entries whose change is kept
	}{
		{push.Stream, []push.Publication{at(1, ""), at(2, ""), at(3, "b"), at(4, "b")}, "[2 4]"},
		{push.Stream, []push.Publication{at(1, ""), at(2, ""), at(3, ""), at(4, ""), at(5, ""), at(6, "")}, "[3 4 5 6]"}, // the 4 entries that are kept
		{push.Stream, []push.Publication{at(1, ""), at(2, ""), {Offset: 3, Op: push.Clear}, at(4, ""), at(5, "")}, "[5]"},
		{push.Stream, []push.Publication{at(1, ""), {Offset: 2}, at(3, ""), at(4, "")}, "[4]"}, // without data
		{push.Value, []push.Publication{at(1, "a"), at(2, "b"), at(3, "b")}, "[3]"},
		{push.Value, []push.Publication{at(1, "a"), at(2, "b")}, "[]"},
		{push.Value, []push.Publication{at(1, ""), {Offset: 2, Op: push.Remove}, at(3, "")}, "[]"},
		{push.Table, []push.Publication{at(1, "a"), at(2, "b"), at(3, "a"), at(4, "a"), at(5, "b")}, "[4 5]"},
		{push.Table, []push.Publication{at(1, "a"), at(2, "a"), {Offset: 3, Key: "a", Op: push.Remove}, at(4, "a")}, "[]"},
		{push.Table, []push.Publication{at(1, "a"), at(2, "a"), {Offset: 3, Op: push.Clear}, at(4, "a")}, "[]"},
	} {
		l := channel.New(&channel.Policy{Mode: tt.mode, History: push.History{Size: 4}}, push.Position{Epoch: "e"}, 0)
		l.KeepChanges(true)
		for _, p := range tt.pubs {
			l.Append(p)
		}
		got := []uint64{}
		for e := range l.Entries() {
			if l.Change(e) != nil {
				got = append(got, e.Offset)
			}
		}
		if fmt.Sprint(got) != tt.want || l.Changes() != len(got) {
			t.Errorf("%v %v: changes of %v are kept, %d in all, want %s", tt.mode, tt.pubs, got, l.Changes(), tt.want)
		}
		with := l.Bytes()
		if l.RaiseFloor(l.Head()); tt.mode == push.Stream && l.Changes() != 0 {
			t.Errorf("%d changes are kept of no entries", l.Changes())
		}
		if l.KeepChanges(false); l.Changes() != 0 {
			t.Errorf("%d changes are kept that nobody wants", l.Changes())
		}
		if more := with - l.Bytes(); tt.mode != push.Stream && more != int64(len(got)*len(document(1))) {
			t.Errorf("%v %v: %d changes count for %d bytes", tt.mode, tt.pubs, len(got), more)
		}
	}
}

// TestDiff: a difference is computed once in each form, and only returned if it is shorter.
func TestDiff(t *testing.T) {
	l := channel.New(&channel.Policy{Mode: push.Value}, push.Position{Epoch: "e"}, 0)
	l.KeepChanges(true)
	l.Append(push.Publication{Offset: 1, Data: document(1)})
	c := l.Change(l.Append(push.Publication{Offset: 2, Data: document(2)}))
	fossil, merge := c.Diff(push.Fossil), c.Diff(push.Merge)
	if got, err := delta.ApplyFossil(nil, document(1), fossil, 1<<10); err != nil || string(got) != string(document(2)) {
		t.Errorf("the Fossil delta %q makes %q: %v", fossil, got, err)
	}
	if want := `{"n":2}`; string(merge) != want {
		t.Errorf("the merge patch is %s, want %s", merge, want)
	}
	if again := c.Diff(push.Fossil); &again[0] != &fossil[0] {
		t.Error("the difference was made twice")
	}
	if made := l.Bytes() - int64(len(document(1))+len(document(2))); made != int64(len(fossil)+len(merge)) {
		t.Errorf("differences of %d and %d bytes count for %d", len(fossil), len(merge), made)
	}
	if c.Diff(push.NoDelta) != nil || (*channel.Change)(nil).Diff(push.Fossil) != nil {
		t.Error("there is a difference where there cannot be one")
	}
	other := l.Change(l.Append(push.Publication{Offset: 3, Data: []byte(`"?"`)}))
	if n, want := l.Bytes(), int64(len(document(2))+len(`"?"`)); n != want {
		t.Errorf("when the change is gone %d bytes are kept, not %d", n, want)
	}
	if got := other.Diff(push.Fossil); got != nil {
		t.Errorf("%q goes as %q", `"?"`, got)
	}
	if got := other.Diff(push.Merge); got != nil {
		t.Errorf("%q goes as %q", `"?"`, got)
	}
}
