package session_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// No input that was left during a pause is lost, reordered or repeated, whatever the executor, and however messages are split.
func TestPausedMessagesAreHandled(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		f := newFixture(t, tr, line, echo(), o)
		const rounds, most = 6, 4000
		for round := range rounds {
			wrote := make(chan error, 1)
			var all strings.Builder
			for i := range most {
				fmt.Fprintf(&all, "%d-%d-%s\n", round, i, strings.Repeat("x", i%97))
			}
			go func() {
				for p := []byte(all.String()); len(p) > 0; {
					n := min(len(p), 1+len(p)%40_000)
					if _, err := f.client.Write(p[:n]); err != nil {
						wrote <- err
						return
					}
					p = p[n:]
				}
				wrote <- nil
			}()
			await(t, func() bool { return f.s.IsOverloaded() || f.srv.Stats().BytesIn == uint64((round+1)*all.Len()) })
			expect(t, f.client, all.String())
			if err := receive(t, wrote); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// pausedFixture is a session whose peer sends requests and reads no answers, until the session stops reading.
func pausedFixture(t *testing.T, tr transport, o *session.Options) *fixture {
	t.Helper()
	f := newFixture(t, tr, line, echo(), o)
	go func() { // it ends when the connection does
		for err := error(nil); err == nil; {
			_, err = f.client.Write([]byte(strings.Repeat("x", 999) + "\n"))
		}
	}()
	await(t, func() bool { return f.s.IsOverloaded() || len(f.closed) > 0 })
	return f
}

// A paused session ends like any other, on both sides.
func TestPausedSessionEnds(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, tt := range []struct {
			name string
			end  func(*fixture)
			by   session.By
		}{
			{"Close", func(f *fixture) { f.s.Close() }, session.ByLocal},
			{"the peer", func(f *fixture) { _ = f.client.Close() }, session.ByError},
			{"End", func(f *fixture) {
				f.s.End([]byte("bye\n"), nil)
				_, _ = io.Copy(io.Discard, f.client)
			}, session.ByLocal},
		} {
			t.Run(tt.name, func(t *testing.T) {
				o := smallBuffers()
				o.Linger = 50 * time.Millisecond
				f := pausedFixture(t, tr, o)
				tt.end(f)
				if info := receive(t, f.closed); info.By != tt.by {
					t.Errorf("by %v: %v", info.By, info.Err)
				}
			})
		}
	})
}

// A session whose peer takes nothing ends after the write timeout. The pause does not count as silence of the peer, because the session did not
// read.
func TestPausedSessionTimesOut(t *testing.T) {
	overWaiting(t, every, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.WriteTimeout, o.IdleTimeout = 500*time.Millisecond, 250*time.Millisecond
		f := pausedFixture(t, tr, o)
		info := receive(t, f.closed)
		if !errors.Is(info.Err, session.ErrTimeout) || !strings.Contains(info.Err.Error(), "the peer read nothing") {
			t.Errorf("by %v: %v", info.By, info.Err)
		}
	})
}
