package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// closingPlaces are the functions of the user that a pool calls, by name. Each makes options in which that function calls end.
func closingPlaces() map[string]func(w *world, o *reconnect.Options, end func()) {
	type place = func(w *world, o *reconnect.Options, end func())
	places := map[string]place{
		"Resume": func(_ *world, o *reconnect.Options, end func()) {
			o.Resume = func(context.Context, *session.Session) error { end(); return nil }
		},
		"Attach": func(_ *world, o *reconnect.Options, end func()) {
			o.Attach = func(int, string) *session.Attach { end(); return nil }
		},
		"Dial": func(w *world, o *reconnect.Options, end func()) {
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				end()
				return w.farm.dial(ctx, network, address)
			}
		},
		"Jitter": func(_ *world, o *reconnect.Options, end func()) {
			o.Addresses, o.Jitter = []string{"x"}, func(most time.Duration) time.Duration { end(); return most }
		},
	}
	for name, h := range closingHandlers() {
		places[name] = h
	}
	for _, state := range []reconnect.State{reconnect.Connecting, reconnect.Open, reconnect.BackingOff, reconnect.Failed, reconnect.Closed} {
		places[state.String()] = func(w *world, o *reconnect.Options, end func()) {
			switch state {
			case reconnect.BackingOff:
				o.Addresses = []string{"x"}
			case reconnect.Failed:
				o.Addresses, o.MaxAttempts = []string{"x"}, 1
			}
			w.rec.also = func(ev reconnect.Event) {
				if ev.State == state {
					end()
				} else if state == reconnect.Closed && ev.State == reconnect.Open {
					_ = w.pool.SetAddresses([]string{"x"})
				}
			}
		}
	}
	return places
}

// closingHandlers are the part of closingPlaces that are functions of a handler.
func closingHandlers() map[string]func(w *world, o *reconnect.Options, end func()) {
	return map[string]func(w *world, o *reconnect.Options, end func()){
		"Open": func(_ *world, o *reconnect.Options, end func()) {
			o.Handler = &session.Handler{Open: func(*session.Session) error { end(); return nil }}
		},
		"Message": func(_ *world, o *reconnect.Options, end func()) {
			o.Handler = &session.Handler{
				Open:    func(s *session.Session) error { return s.Send([]byte("hello")) },
				Message: func(*session.Session, []byte) { end() },
			}
		},
		"Tick": func(_ *world, o *reconnect.Options, end func()) {
			h := &session.Handler{Tick: func(*session.Session) { end() }}
			o.Attach = func(int, string) *session.Attach {
				return &session.Attach{Handler: h, Limits: session.Limits{TickInterval: time.Second}}
			}
		},
		"Close": func(_ *world, o *reconnect.Options, end func()) {
			o.Handler = &session.Handler{Close: func(*session.Session, *session.CloseInfo) { end() }}
			o.Resume = func(context.Context, *session.Session) error { return errPlanned }
		},
		"Drain": func(w *world, o *reconnect.Options, end func()) {
			o.Handler = &session.Handler{Drain: func(s *session.Session) { end(); s.End(nil, nil) }}
			w.rec.also = func(ev reconnect.Event) {
				if ev.State == reconnect.Open {
					_ = w.pool.SetAddresses([]string{"x"})
				}
			}
		},
	}
}

// If a function of the user calls Close or Shutdown, the call does not wait, and ends the pool all the same.
func TestCloseFromCallback(t *testing.T) {
	ends := map[string]func(w *world){
		"Close":    func(w *world) { _ = w.pool.Close() },
		"Shutdown": func(w *world) { _ = w.pool.Shutdown(w.Context()) },
	}
	places := closingPlaces()
	for name, place := range places {
		for how, end := range ends {
			t.Run(name+"/"+how, func(t *testing.T) {
				var once sync.Once
				var called chan struct{}
				inWorld(t, func(w *world, o *reconnect.Options) {
					called = make(chan struct{}) // made in the bubble
					place(w, o, func() {
						end(w)
						once.Do(func() { close(called) })
					})
				}, func(w *world) {
					w.pool.Start()
					select {
					case <-called:
					case <-time.After(time.Hour):
						t.Fatal("it was not called, or waits")
					}
					if err := w.pool.Shutdown(w.Context()); err != nil { // waits
						t.Error(err)
					}
				})
			})
		}
	}
}

// Close at any time cancels all pending work and waits for it. It does not wait for timers.
func TestCloseMeanwhile(t *testing.T) {
	for name, c := range map[string]func(w *world, o *reconnect.Options){
		"not started": nil,
		"dialing":     func(w *world, _ *reconnect.Options) { w.farm.setStall(true) },
		"backing off": func(_ *world, o *reconnect.Options) { o.Addresses = []string{"x"} },
		"open":        func(_ *world, o *reconnect.Options) { o.Sessions = 10 },
		"resuming": func(_ *world, o *reconnect.Options) {
			o.Resume = func(ctx context.Context, _ *session.Session) error { <-ctx.Done(); return context.Cause(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c, func(w *world) {
				if name != "not started" {
					w.pool.Start()
				}
				synctest.Wait()
				began := time.Now()
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						_ = w.pool.Close()
						if n := w.client.Len(); n != 0 {
							t.Errorf("%d sessions after Close", n)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v", took)
				}
				for _, ev := range w.rec.events(is(reconnect.Closed)) {
					if !errors.Is(ev.Err, reconnect.ErrClosed) {
						t.Errorf("%+v", ev)
					}
				}
			})
		})
	}
}

// Shutdown waits for leases, but not longer than DrainTimeout and its context.
func TestShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		release, within, drain, want time.Duration
	}{
		"released":  {time.Second, time.Minute, -1, time.Second},
		"context":   {time.Hour, 5 * time.Second, -1, 5 * time.Second},
		"drain":     {time.Hour, time.Minute, 0, 10 * time.Second},
		"no leases": {0, time.Minute, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *world, o *reconnect.Options) { o.Sessions, o.DrainTimeout = 3, c.drain }, func(w *world) {
				w.wait(0)
				if c.release > 0 {
					lease, err := w.pool.Acquire("")
					if err != nil {
						t.Fatal(err)
					}
					defer lease.Release()
					defer time.AfterFunc(c.release, lease.Release).Stop()
				}
				ctx, cancel := context.WithTimeout(w.Context(), c.within)
				defer cancel()
				began := time.Now()
				err := w.pool.Shutdown(ctx)
				if took := time.Since(began); took != c.want || errors.Is(err, context.DeadlineExceeded) != (name == "context") {
					t.Errorf("error %v after %v", err, took)
				}
				if n := len(w.rec.events(is(reconnect.Draining))); n != 3 {
					t.Errorf("%d sessions were drained", n)
				}
			})
		})
	}
}

// Many pools share a client, and closing one does not affect the others.
func TestPoolsShareClient(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Sessions = 2 }, func(w *world) {
		w.wait(0)
		rec := newRecorder()
		other, err := reconnect.New(w.client, &reconnect.Options{Addresses: []string{"a"}, Sessions: 3, Dial: w.farm.dial, State: rec.state})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Wait(w.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if n := w.client.Len(); n != 5 {
			t.Errorf("%d sessions", n)
		}
		s, err := other.Pick("")
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		rec.await(w.T, 4, is(reconnect.Open))
		_ = other.Close()
		if err := rec.end(); err != nil {
			t.Error(err)
		}
		if n := w.client.Len(); n != 2 || w.pool.Len() != 2 {
			t.Errorf("%d sessions", n)
		}
		if err := w.pool.Send("", fmt.Append(nil, "hello")); err != nil {
			t.Error(err)
		}
	})
}
