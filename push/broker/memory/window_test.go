package memory_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/broker/memory"
)

// TestWindow compares the window with a list of everything that was ever stored.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type stored struct {
			key    string
			offset uint64
			at     time.Time
		}
		var all []stored
		now := time.Unix(1_700_000_000, 0)
		most := rapid.IntRange(0, 8).Draw(t, "most")
		w := memory.NewWindow(most)
		for i := range rapid.IntRange(1, 200).Draw(t, "publishes") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pause")).Truncate(time.Millisecond))
			key := fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "key"))
			offset, live := uint64(i)+1, 0
			want := offset
			for j, s := range all {
				if now.Sub(s.at) < memory.IdempotencyWindow && (most == 0 || j >= len(all)-most) {
					live++
					if s.key == key {
						want = s.offset
					}
				}
			}
			got := w.Publish(key, now, offset)
			if got != want {
				t.Fatalf("key %s answers %d, want %d", key, got, want)
			}
			if got == offset {
				all = append(all, stored{key, offset, now})
				live++
			}
			if n := w.Len(); n > 2*live+1 {
				t.Fatalf("the queue takes %d entries for %d keys", n, live)
			}
		}
	})
}
