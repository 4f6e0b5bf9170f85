package session_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// A session with nothing to do holds no memory for writing, and where it can wait without one no buffer for reading.
func TestAnIdleSessionHoldsNothing(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		var rested *atomic.Bool
		h := echo()
		if tr.engine != session.EngineLoop {
			h.Open = func(s *session.Session) error { rested = session.WatchRests(s); return nil }
		}
		f := newFixture(t, tr, line, h, nil)
		write(t, f.client, strings.Repeat("hello\n", 50))
		expect(t, f.client, strings.Repeat("hello\n", 50))
		await(t, func() bool { return !f.s.Holds() })
		if !tr.direct || rested == nil {
			return
		}
		// Bytes may come just before the attempt to read that would find nothing, so more than one try is fair.
		for tries := 0; !rested.Load(); tries++ {
			if tries == 10_000 {
				t.Fatal("it never gave up its read buffer")
			}
			write(t, f.client, "hello\n")
			expect(t, f.client, "hello\n")
		}
	})
}
