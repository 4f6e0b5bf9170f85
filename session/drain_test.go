package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// A Drain that waits for its peer does not delay Shutdown beyond its context, and the other sessions are drained too.
func TestShutdownWithDrainsThatWait(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		ctx, cancel := context.WithCancel(context.Background())
		o := smallBuffers()
		o.QueueFrames, o.WriteTimeout = 1, -1
		result := make(chan error, 2)
		f := newFixture(t, tr, line, session.Handler{Drain: func(s *session.Session) {
			cancel()
			for err := error(nil); err == nil; { // until there is no room, because the peer does not read
				err = s.Send(make([]byte, 1000))
				if err != nil {
					result <- err
				}
			}
		}}, o)
		f.dial()
		await(t, func() bool { return f.srv.Stats().Opened == 2 })
		if err := f.srv.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if err := receive(t, result); !errors.Is(err, session.ErrClosed) {
			t.Errorf("error %v", err)
		}
		for range 2 {
			if info := receive(t, f.closed); !errors.Is(info.Err, session.ErrServerClosed) {
				t.Errorf("ended by %v, %v", info.By, info.Err)
			}
		}
	})
}
