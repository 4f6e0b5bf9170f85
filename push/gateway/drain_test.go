package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/push/gateway"
)

// TestDrain: clients are asked to connect again one after the other, and none is admitted; the others are served as long as they stay.
func TestDrain(t *testing.T) {
	inFakeTime(t, &gateway.Options{PingInterval: -1}, func(t *testing.T, p *place) {
		const clients = 10
		var reading sync.WaitGroup
		var late atomic.Int64 // clients that got what was published after half of the time
		for range clients {
			c := p.subscriber("a").forever()
			reading.Go(func() {
				line, err := c.line()
				if err == nil && strings.Contains(line, "late") {
					late.Add(1)
					_, err = c.line()
				}
				if closed := new(websocket.CloseError); !errors.As(err, &closed) || closed.Code != 3001 {
					t.Errorf("%s, %v", line, err)
				}
				_ = c.conn.Close()
			})
		}
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- p.gateway.Drain(t.Context(), time.Minute) }()
		<-time.After(30*time.Second + drainStep)
		synctest.Wait()
		if n := p.gateway.Len(); n != clients/2-1 {
			t.Errorf("after half of the time %d of %d clients are left", n, clients)
		}
		if err := p.gateway.Admits(); err == nil {
			t.Error("it still admits clients")
		}
		if _, res, err := p.dialWS(nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("a new WebSocket: %v, %v", res, err)
		}
		p.publish("a", `"late"`)
		if err := <-done; err != nil || time.Since(began) < 50*time.Second || time.Since(began) > time.Minute {
			t.Errorf("it ended with %v after %v", err, time.Since(began))
		}
		reading.Wait()
		if n := late.Load(); n != clients/2-1 {
			t.Errorf("%d clients got what was published after half of the time", n)
		}
		must(t, p.shutdownWithin(patience))
	})
}

// drainStep is more than the time between two steps of Drain.
const drainStep = 100 * time.Millisecond

// TestDrainEnds: a drain that is given up returns at once, and what remains is for Shutdown.
func TestDrainEnds(t *testing.T) {
	inFakeTime(t, nil, func(t *testing.T, p *place) {
		p.subscriber("a").forever()
		p.subscriber("a").forever()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.gateway.Drain(ctx, time.Hour) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if n := p.gateway.Len(); n == 0 {
			t.Error("no client is left")
		}
		must(t, p.shutdownWithin(patience))
	})
}

// The pace begins with one client at once, never goes back, and is done at the end of the time.
func TestDrained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1_000_000).Draw(t, "n")
		over := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "over"))
		for range 20 {
			elapsed := time.Duration(rapid.Int64Range(0, int64(over)).Draw(t, "elapsed"))
			got := gateway.Drained(n, elapsed, over)
			if got < min(n, 1) || got > n {
				t.Fatalf("%d of %d", got, n)
			}
			if later := gateway.Drained(n, elapsed+(over-elapsed)/2, over); later < got {
				t.Fatalf("%d, then %d", got, later)
			}
			if even := float64(n) * float64(elapsed) / float64(max(over, 1)); over > 0 && elapsed < over && (float64(got) < even-1 || float64(got) > even+1) {
				t.Fatalf("%d of %d after %v of %v", got, n, elapsed, over)
			}
		}
		if got := gateway.Drained(n, over, over); got != n {
			t.Fatalf("%d of %d at the end", got, n)
		}
	})
}
