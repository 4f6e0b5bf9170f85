package channel_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// Unrecoverable tells readers that evictions overtook from readers that had to miss entries in any case.
func TestVoided(t *testing.T) {
	start := push.Position{Epoch: "e", Offset: 10}
	put := func(l *channel.Log, offset uint64, key string, op push.Op) {
		p := push.Publication{Offset: offset, Key: key, Op: op}
		if l.Append(p) == nil {
			t.Fatalf("%d was not appended", offset)
		}
	}
	tests := []struct {
		name string
		mode push.Mode
		miss func(l *channel.Log) // makes a reader at 20 miss something
		want bool
	}{
		{"evicted", push.Stream, func(l *channel.Log) { put(l, 25, "", push.Set); l.RaiseFloor(25) }, false},
		{"gap", push.Stream, func(l *channel.Log) { l.Gap(25) }, true},
		{"gap, then evicted", push.Stream, func(l *channel.Log) { l.Gap(25); put(l, 26, "", push.Set); l.RaiseFloor(26) }, true},
		{"removals forgotten", push.Table, func(l *channel.Log) { put(l, 25, "k", push.Remove); l.RaiseFloor(25) }, false},
		{"cleared", push.Table, func(l *channel.Log) { put(l, 25, "", push.Clear) }, true},
		{"cleared", push.Value, func(l *channel.Log) { put(l, 25, "", push.Clear) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.mode.String()+" "+tt.name, func(t *testing.T) {
			l := channel.New(&channel.Policy{Mode: tt.mode}, start, 5)
			put(l, 20, "k", push.Set)
			c, _ := l.Subscribe(&push.Position{Epoch: "e", Offset: 20}, nil)
			filling, _ := l.Subscribe(nil, nil) // of a table; it begins at 20 as well
			if l.Unrecoverable(c) || l.Unrecoverable(filling) {
				t.Error("nothing has happened yet")
			}
			tt.miss(l)
			if l.Unrecoverable(c) != tt.want || l.Unrecoverable(filling) != tt.want {
				t.Errorf("%t, and of one that is being filled %t", l.Unrecoverable(c), l.Unrecoverable(filling))
			}
			later, _ := l.Subscribe(nil, nil)
			if l.Unrecoverable(later) {
				t.Error("who came later has missed nothing")
			}
			loaded := channel.New(&channel.Policy{Mode: tt.mode}, push.Position{Epoch: "e"}, 0)
			put(loaded, 35, "k", push.Set)
			loaded.Loaded(40, 30)
			if !loaded.Unrecoverable(loaded.Rebase(c)) || loaded.Head() != 40 || loaded.Floor() != 30 {
				t.Error("what happened before a log was loaded says nothing about readers")
			}
		})
	}
}
