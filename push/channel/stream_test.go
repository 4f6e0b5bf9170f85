package channel_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// TestBeyond: the entries that a stream keeps beyond a smaller history.
func TestBeyond(t *testing.T) {
	for _, tt := range []struct {
		mode push.Mode
		h    push.History
		want uint64
	}{
		{push.Stream, push.History{}, 0},
		{push.Stream, push.History{Size: 10}, 0},
		{push.Stream, push.History{Size: 3}, 20},
		{push.Stream, push.History{Bytes: 10}, 30},
		{push.Stream, push.History{Bytes: 9}, 40},
		{push.Stream, push.History{Size: 3, Bytes: 9}, 40},
		{push.Table, push.History{Size: 1}, 0},
	} {
		l := channel.New(&channel.Policy{Mode: tt.mode}, push.Position{Epoch: "e"}, 0)
		for offset := uint64(10); offset <= 50; offset += 10 {
			l.Append(push.Publication{Offset: offset, Data: []byte("12345")})
		}
		if got := l.Beyond(tt.h); got != tt.want {
			t.Errorf("%v %+v: up to %d, want %d", tt.mode, tt.h, got, tt.want)
		}
	}
}

// TestSpare: the entries that a stream keeps after five entries of five bytes each.
func TestSpare(t *testing.T) {
	for _, tt := range []struct {
		h     push.History
		spare channel.Allowance
		want  int
	}{
		{push.History{}, channel.Allowance{}, 5},
		{push.History{Size: 2}, channel.Allowance{}, 2},
		{push.History{Size: 2}, channel.Allowance{MaxEntries: 4, MaxBytes: 100}, 4},
		{push.History{Size: 2}, channel.Allowance{MaxEntries: 10, MaxBytes: 100}, 5},
		{push.History{Size: 2}, channel.Allowance{MaxEntries: 10, MaxBytes: 15}, 3},
		{push.History{Size: 2}, channel.Allowance{MaxEntries: 10, MaxBytes: 1}, 2},
		{push.History{Size: 2}, channel.Allowance{MinEntries: 3, MaxEntries: 10, MaxBytes: 1}, 3},
		{push.History{Size: 2}, channel.Allowance{MinEntries: 4, MaxEntries: 10, MaxBytes: 15}, 4},
		{push.History{Size: 2}, channel.Allowance{MinEntries: 10, MaxEntries: 4, MaxBytes: 1}, 4},
		{push.History{Size: 4}, channel.Allowance{MinEntries: 1, MaxEntries: 3, MaxBytes: 1}, 4},
		{push.History{Bytes: 10}, channel.Allowance{}, 2},
		{push.History{Bytes: 10}, channel.Allowance{MaxEntries: 10, MaxBytes: 15}, 3},
		{push.History{Bytes: 10}, channel.Allowance{MaxEntries: 4, MaxBytes: 100}, 4},
		{push.History{Size: 10, Bytes: 20}, channel.Allowance{MaxEntries: 1, MaxBytes: 1}, 4},
	} {
		l := channel.New(&channel.Policy{Mode: push.Stream, History: tt.h, Allowance: tt.spare}, push.Position{Epoch: "e"}, 0)
		for offset := uint64(10); offset <= 50; offset += 10 {
			l.Append(push.Publication{Offset: offset, Data: []byte("12345")})
		}
		if got := l.Len(); got != tt.want || l.Floor() != uint64(50-10*tt.want) {
			t.Errorf("%+v %+v: %d entries above %d, want %d", tt.h, tt.spare, got, l.Floor(), tt.want)
		}
	}
}
