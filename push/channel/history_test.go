package channel_test

import (
	"slices"
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

func TestHistory(t *testing.T) {
	at := func(offset uint64) *push.Position { return &push.Position{Epoch: "e", Offset: offset} }
	for _, tt := range []struct {
		name    string
		mode    push.Mode
		request channel.HistoryRequest
		oldest  uint64
		want    []uint64 // nil: refused
	}{
		{"all", push.Stream, channel.HistoryRequest{Limit: -1}, 0, []uint64{1, 2, 3, 4}},
		{"position only", push.Stream, channel.HistoryRequest{}, 0, []uint64{}},
		{"first", push.Stream, channel.HistoryRequest{Limit: 2}, 0, []uint64{1, 2}},
		{"newest", push.Stream, channel.HistoryRequest{Limit: 2, Reverse: true}, 0, []uint64{4, 3}},
		{"kept", push.Stream, channel.HistoryRequest{Limit: -1}, 2, []uint64{3, 4}},
		{"kept, newest first", push.Stream, channel.HistoryRequest{Limit: -1, Reverse: true}, 2, []uint64{4, 3}},
		{"since", push.Stream, channel.HistoryRequest{Limit: -1, Since: at(2)}, 0, []uint64{3, 4}},
		{"since the beginning", push.Stream, channel.HistoryRequest{Limit: -1, Since: &push.Position{}}, 2, []uint64{3, 4}},
		{"since too old", push.Stream, channel.HistoryRequest{Limit: -1, Since: at(1)}, 2, nil},
		{"before", push.Stream, channel.HistoryRequest{Limit: -1, Since: at(3), Reverse: true}, 0, []uint64{2, 1}},
		{"before what is kept", push.Stream, channel.HistoryRequest{Limit: -1, Since: at(2), Reverse: true}, 2, nil},
		{"another epoch", push.Stream, channel.HistoryRequest{Limit: -1, Since: &push.Position{Epoch: "f", Offset: 3}}, 0, nil},
		{"rows", push.Table, channel.HistoryRequest{Limit: -1}, 3, []uint64{2, 4}},
		{"rows since", push.Table, channel.HistoryRequest{Limit: -1, Since: at(3)}, 3, []uint64{4}},
		{"rows, newest first", push.Table, channel.HistoryRequest{Limit: -1, Reverse: true}, 3, []uint64{4, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := channel.New(&channel.Policy{Mode: tt.mode}, push.Position{Epoch: "e"}, 0)
			for i, key := range []string{"a", "b", "a", "c"} {
				p := push.Publication{Offset: uint64(i + 1), Key: key}
				if tt.mode == push.Table && i == 2 {
					p.Op = push.Remove
				}
				l.Append(p)
			}
			entries, ok := l.History(tt.request, tt.oldest)
			got := []uint64{}
			for _, e := range entries {
				got = append(got, e.Offset)
			}
			if ok != (tt.want != nil) || ok && !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, ok, tt.want)
			}
		})
	}
}
