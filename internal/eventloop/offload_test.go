package eventloop_test

import (
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
)

const ms = int64(time.Millisecond)

// A session that has blocked is offloaded for five seconds, and the others of its group are not.
func TestOffloadState(t *testing.T) {
	var g eventloop.OffloadGroup
	var blocked, other eventloop.OffloadState
	if blocked.Offloaded(&g, 1) {
		t.Error("a new session is offloaded")
	}
	blocked.Offload(1000 * ms)
	g.Blocked(1000 * ms)
	for at, want := range map[int64]bool{1000: true, 5999: true, 6000: false} {
		if got := blocked.Offloaded(&g, at*ms); got != want {
			t.Errorf("%d ms after the start it is offloaded: %t", at, got)
		}
	}
	if other.Offloaded(&g, 1001*ms) || g.Offloaded(1001*ms) {
		t.Error("another session is offloaded too")
	}
}

// Two handlers that block within a second offload the whole group for five seconds. Handlers that block now and then do not.
func TestOffloadGroup(t *testing.T) {
	var g eventloop.OffloadGroup
	for i := range int64(20) {
		now := (1 + i*1001) * ms
		g.Blocked(now)
		if g.Offloaded(now) {
			t.Fatal("offloaded although each block was more than a second after the one before")
		}
	}
	var s eventloop.OffloadState
	g.Blocked(40_000 * ms)
	g.Blocked(41_000 * ms)
	for at, want := range map[int64]bool{41_000: true, 45_999: true, 46_000: false} {
		if got := s.Offloaded(&g, at*ms); got != want {
			t.Errorf("at %d ms a session is offloaded: %t", at, got)
		}
	}
	g.OffloadUntil(100)
	if !g.Offloaded(45_999 * ms) {
		t.Error("an earlier end has replaced a later one")
	}
}

// A sequence number that is observed again has stood still since it was observed first. A new one has stood still for no time.
func TestStall(t *testing.T) {
	var stall eventloop.StallDetector
	for i, v := range []struct {
		seq       uint64
		now, want int64
	}{
		{3, 1000 * ms, 0},
		{3, 1001 * ms, ms},
		{3, 1002*ms + 1, 2*ms + 1},
		{3, 2000 * ms, 4*ms + 1},
		{5, 2001 * ms, 0},
		{3, 2001*ms + 1, 0},
		{3, 2001*ms + 2, 1},
	} {
		if got := stall.Observe(v.seq, v.now); int64(got) != v.want {
			t.Errorf("observation %d: the number stood still for %v, want %d ns", i, got, v.want)
		}
	}
}
