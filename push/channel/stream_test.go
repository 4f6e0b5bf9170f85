package channel_test

import (
	"testing"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/channel"
)

// TestBeyond: what a stream keeps beyond a retention that is less than its own.
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
