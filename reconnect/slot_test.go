package reconnect_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// seconds returns durations of so many seconds.
func seconds(all ...int) (out []time.Duration) {
	for _, n := range all {
		out = append(out, time.Duration(n)*time.Second)
	}
	return out
}

// A session that ends, for whatever reason, is replaced after Close of its handler has returned. No goroutine runs meanwhile.
func TestReplaced(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(w *world)
		want error
	}{
		"eof":    {func(w *world) { w.farm.each("a", func(s *session.Session) { s.End(nil, nil) }) }, io.EOF},
		"abort":  {func(w *world) { w.farm.each("a", func(s *session.Session) { s.Abort(nil) }) }, nil},
		"local":  {func(w *world) { w.mine().Abort(errPlanned) }, errPlanned},
		"gentle": {func(w *world) { w.mine().End(nil, errPlanned) }, errPlanned},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			inWorld(t, func(w *world, o *reconnect.Options) {
				o.Handler = &session.Handler{
					Open:  func(*session.Session) error { told = append(told, "open"); return nil },
					Close: func(*session.Session, *session.CloseInfo) { told = append(told, "close") },
				}
				w.rec.also = func(ev reconnect.Event) { told = append(told, ev.State.String()) }
			}, func(w *world) {
				w.wait(1)
				first := w.mine()
				end.do(w)
				w.rec.await(w.T, 2, is(reconnect.Open))
				synctest.Wait()
				if w.mine() == first {
					t.Error("it is the same session")
				}
				want := []string{"connecting", "open", "open", "close", "backing off", "connecting", "open", "open"}
				if !slices.Equal(told, want) {
					t.Errorf("%q, want %q", told, want)
				}
				off := w.rec.events(is(reconnect.BackingOff))[0]
				if off.Session != first || off.Attempt != 1 || off.Delay != time.Second || end.want != nil && !errors.Is(off.Err, end.want) {
					t.Errorf("%+v", off)
				}
				if st := w.pool.Stats(); st.Open != 1 || st.Dials != 2 || st.Opened != 2 || st.Reconnects != 1 || st.Failures != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// mine returns the session that Pick returns.
func (w *world) mine() *session.Session {
	w.Helper()
	s, err := w.pool.Pick("")
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// While all sessions are open, and while a slot backs off, the pool has no goroutine.
func TestNoGoroutines(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Sessions, o.Network = 20, "memory" }, func(w *world) {
		pools := func() (n int) {
			synctest.Wait()
			buf := make([]byte, 1<<20)
			for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(stack, "reconnect.(*") {
					n++
				}
			}
			return n
		}
		w.wait(20)
		if n := pools(); n != 0 {
			t.Errorf("%d goroutines while all is well", n)
		}
		w.farm.down("a")
		w.rec.await(w.T, 20, is(reconnect.BackingOff))
		if n := pools(); n != 0 {
			t.Errorf("%d goroutines while all back off", n)
		}
	})
}

// The wait grows to the cap. It is reset only after a session that was open for Options.StableAfter, not after shorter ones.
func TestBacksOff(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Cap, o.StableAfter = 8*time.Second, time.Minute }, func(w *world) {
		w.farm.down("a")
		w.pool.Start()
		off := w.rec.await(w.T, 5, is(reconnect.BackingOff))
		if want := seconds(1, 2, 4, 8, 8); !slices.Equal(delays(off), want) {
			t.Errorf("delays %v", delays(off))
		}
		if !errors.Is(off[0].Err, syscall.ECONNREFUSED) || off[4].Attempt != 5 || off[0].Session != nil {
			t.Errorf("%+v", off)
		}
		w.farm.up("a", &session.Handler{Open: func(s *session.Session) error { s.End(nil, nil); return nil }}) // the server accepts and closes
		off = w.rec.await(w.T, 10, is(reconnect.BackingOff))[5:]
		if want := seconds(8, 8, 8, 8, 8); !slices.Equal(delays(off), want) || off[4].Attempt != 10 {
			t.Errorf("delays %v, attempt %d", delays(off), off[4].Attempt)
		}
		w.farm.down("a")
		w.farm.up("a", nil)
		w.wait(1)
		pass(time.Minute)
		seen := len(w.rec.events(is(reconnect.BackingOff)))
		w.farm.down("a")
		off = w.rec.await(w.T, seen+2, is(reconnect.BackingOff))[seen:]
		if want := seconds(1, 2); !slices.Equal(delays(off), want) || off[0].Attempt != 0 || off[1].Attempt != 1 {
			t.Errorf("delays %v, attempts %d and %d", delays(off), off[0].Attempt, off[1].Attempt)
		}
	})
}

// The longest possible wait works like any other, and without Jitter all waits are within their bounds.
func TestWaitsLong(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) {
		o.Addresses, o.Sessions, o.Base, o.Cap, o.Jitter = []string{"x"}, 100, math.MaxInt64, math.MaxInt64, nil
	}, func(w *world) {
		w.pool.Start()
		for _, d := range delays(w.rec.await(w.T, 100, is(reconnect.BackingOff))) {
			if d < 0 {
				t.Errorf("a wait of %v", d)
			}
		}
	})
}

// A slot gives up after MaxAttempts, and when the client is closed. Other slots continue.
func TestGivesUp(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Addresses, o.MaxAttempts = []string{"a", "b"}, 3 }, func(w *world) {
		w.wait(1)
		if err := w.pool.Wait(w.Context(), 0); !errors.Is(err, reconnect.ErrGaveUp) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("error %v", err)
		}
		failed := w.rec.await(w.T, 1, is(reconnect.Failed))[0]
		if failed.Attempt != 3 || failed.Address != "b" || w.farm.dials("b") != 3 {
			t.Errorf("%+v after %d dials", failed, w.farm.dials("b"))
		}
		if st := w.pool.Stats(); st.Failed != 1 || st.Open != 1 || st.Failures != 3 {
			t.Errorf("%+v", st)
		}
		w.farm.up("b", nil)
		if err := w.pool.SetAddresses([]string{"a", "b"}); err != nil { // replaces the slot that gave up
			t.Error(err)
		}
		w.wait(2)
		if w.farm.dials("a") != 1 {
			t.Error("the session that was well was ended")
		}
		_ = w.client.Close()
		if err := w.pool.Wait(w.Context(), 1); !errors.Is(err, reconnect.ErrGaveUp) || !errors.Is(err, session.ErrClientClosed) {
			t.Errorf("error %v", err)
		}
		if _, err := w.pool.Pick(""); !errors.Is(err, reconnect.ErrNone) || !errors.Is(err, reconnect.ErrGaveUp) {
			t.Errorf("error %v", err)
		}
	})
}

// A session is picked only after Resume. An error or a panic of Resume ends the session.
func TestResumeFails(t *testing.T) {
	for name, resume := range map[string]func(context.Context, *session.Session) error{
		"error":  func(context.Context, *session.Session) error { return errPlanned },
		"panic":  func(context.Context, *session.Session) error { panic(errPlanned) },
		"goexit": func(context.Context, *session.Session) error { runtime.Goexit(); return nil },
		"ends":   func(_ context.Context, s *session.Session) error { s.Close(); return nil },
		"late":   func(ctx context.Context, _ *session.Session) error { <-ctx.Done(); return context.Cause(ctx) },
		"cut": func(ctx context.Context, s *session.Session) error {
			s.Abort(errPlanned)
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			inWorld(t, func(w *world, o *reconnect.Options) {
				o.Resume = func(ctx context.Context, s *session.Session) error {
					if _, err := w.pool.Pick(""); !errors.Is(err, reconnect.ErrNone) || w.client.Len() != 1 {
						t.Errorf("error %v, %d sessions", err, w.client.Len())
					}
					if attempts++; attempts < 3 {
						return resume(ctx, s)
					}
					return nil
				}
			}, func(w *world) {
				w.wait(1)
				off := w.rec.events(is(reconnect.BackingOff))
				if want := seconds(1, 2); !slices.Equal(delays(off), want) {
					t.Errorf("delays %v", delays(off))
				}
				var panicked *session.PanicError
				switch err := off[0].Err; name {
				case "error", "cut":
					if !errors.Is(err, errPlanned) {
						t.Error(err)
					}
				case "panic", "goexit":
					if !errors.As(err, &panicked) || w.pool.Stats().Panics != 2 {
						t.Error(err)
					}
				case "late":
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				if st := w.pool.Stats(); st.Failures != 2 || st.Opened != 1 || st.Reconnects != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Resume waits for answers, through the handler or with Receive.
func TestResumeAsks(t *testing.T) {
	t.Run("handler", func(t *testing.T) {
		var answers chan string
		inWorld(t, func(_ *world, o *reconnect.Options) {
			answers = make(chan string, 1)
			o.Handler = &session.Handler{Message: func(_ *session.Session, msg []byte) { answers <- string(msg) }}
			o.Resume = func(ctx context.Context, s *session.Session) error {
				_ = s.Send([]byte("login"))
				select {
				case a := <-answers:
					if a != "login" {
						t.Error(a)
					}
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}, func(w *world) { w.wait(1) })
	})
	t.Run("pull", func(t *testing.T) {
		inWorld(t, func(_ *world, o *reconnect.Options) {
			o.Handler = nil
			o.Resume = func(ctx context.Context, s *session.Session) error {
				_ = s.Send([]byte("login"))
				msg, err := s.Receive(ctx)
				if string(msg) != "login" {
					t.Errorf("%q", msg)
				}
				return err
			}
		}, func(w *world) {
			w.wait(1)
			if err := w.pool.Send("", []byte("more")); err != nil {
				t.Error(err)
			}
			if msg, err := w.mine().Receive(w.Context()); string(msg) != "more" {
				t.Errorf("%q, %v", msg, err)
			}
		})
	})
}

// A slot also backs off after an error before its session is open, and no goroutine or session is left behind.
func TestOpenFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, o *reconnect.Options)
		want   error
	}{
		"refused": {func(_ *world, o *reconnect.Options) {
			o.Handler = &session.Handler{Open: func(*session.Session) error { return errPlanned }}
		}, errPlanned},
		"open panics": {func(_ *world, o *reconnect.Options) {
			o.Handler = &session.Handler{Open: func(*session.Session) error { panic(errPlanned) }}
		}, nil},
		"stalls": {func(w *world, _ *reconnect.Options) { w.farm.setStall(true) }, context.DeadlineExceeded},
		"open stalls": {func(_ *world, o *reconnect.Options) {
			o.Handler = &session.Handler{Open: func(*session.Session) error { <-time.After(15 * time.Second); return nil }}
		}, context.DeadlineExceeded},
		"no connection": {func(_ *world, o *reconnect.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		}, nil},
		"dial panics": {func(_ *world, o *reconnect.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { panic(errPlanned) }
		}, nil},
		"attach panics": {func(_ *world, o *reconnect.Options) {
			o.Attach = func(int, string) *session.Attach { panic(errPlanned) }
		}, nil},
		"too late": {func(w *world, o *reconnect.Options) {
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				<-ctx.Done()
				return w.farm.dial(context.WithoutCancel(ctx), network, address)
			}
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c.change, func(w *world) {
				w.pool.Start()
				off := w.rec.await(w.T, 3, is(reconnect.BackingOff))
				if c.want != nil && !errors.Is(off[2].Err, c.want) {
					t.Errorf("error %v", off[2].Err)
				}
				if want := seconds(1, 2, 4); !slices.Equal(delays(off), want) || w.client.Len() != 0 {
					t.Errorf("delays %v, %d sessions", delays(off), w.client.Len())
				}
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				err := w.pool.Wait(ctx, 1)
				if !errors.Is(err, context.DeadlineExceeded) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A client that is closed between connecting and Open calls no function of the handler: the slot fails by its timeout.
func TestClientClosedEarly(t *testing.T) {
	inWorld(t, func(w *world, o *reconnect.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := w.farm.dial(ctx, network, address)
			go func() { _ = w.client.Close() }()
			return conn, err
		}
	}, func(w *world) {
		if err := w.pool.Wait(w.Context(), 1); err != nil && !errors.Is(err, session.ErrClientClosed) {
			t.Errorf("error %v", err)
		}
		w.rec.await(w.T, 1, is(reconnect.Failed))
	})
}

// Each session may have its own handler and codec, and another handler later.
func TestAttach(t *testing.T) {
	var got chan string
	var ended chan struct{}
	message := func(name string) func(*session.Session, []byte) {
		return func(_ *session.Session, msg []byte) { got <- name + string(msg) }
	}
	inWorld(t, func(w *world, o *reconnect.Options) {
		got, ended = make(chan string, 9), make(chan struct{}, 9)
		o.Sessions = 2
		o.Attach = func(slot int, address string) *session.Attach {
			if slot == 0 || address != "a" {
				return nil
			}
			return &session.Attach{Value: slot, Codec: codec.Line{}, Handler: &session.Handler{
				Open: func(s *session.Session) error {
					w.pool.SetHandler(s, &session.Handler{
						Message: message("later "),
						Close:   func(*session.Session, *session.CloseInfo) { ended <- struct{}{} },
					})
					return s.Send([]byte("to one"))
				},
				Close: func(*session.Session, *session.CloseInfo) { t.Error("Close of the old handler") },
			}}
		}
		o.Handler = &session.Handler{
			Open:    func(s *session.Session) error { return s.Send([]byte("to all")) },
			Message: message("first "),
		}
	}, func(w *world) {
		w.wait(0)
		all := []string{testwait.Hold(t, got), testwait.Hold(t, got)}
		if slices.Sort(all); !slices.Equal(all, []string{"first to all", "later to one"}) {
			t.Errorf("%q", all)
		}
		w.farm.down("a")
		w.farm.up("a", nil)
		testwait.Hold(t, ended)
		w.rec.await(w.T, 4, is(reconnect.Open))
		if st := w.pool.Stats(); st.Reconnects != 2 {
			t.Errorf("%+v", st)
		}
		testwait.Hold(t, got)
		testwait.Hold(t, got)
	})
}

// State may block, panic, and end its goroutine: the slot then continues, in order.
func TestStateMisbehaves(t *testing.T) {
	for name, misbehave := range map[string]func(){
		"block":  func() { <-time.After(100 * time.Millisecond) },
		"panic":  func() { panic(errPlanned) },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, o *reconnect.Options) {
				o.MaxAttempts = 8
				w.rec.also = func(reconnect.Event) { misbehave() }
				inner := o.Jitter
				o.Jitter = func(most time.Duration) time.Duration {
					if name == "block" {
						return inner(most)
					}
					misbehave()
					return 0
				}
			}, func(w *world) {
				w.wait(1)
				for n := 2; n < 5; n++ {
					w.farm.down("a")
					w.farm.up("a", nil)
					w.rec.await(w.T, n, is(reconnect.Open))
				}
				w.farm.down("a")
				w.rec.await(w.T, 1, is(reconnect.Failed))
				if st := w.pool.Stats(); name != "block" && st.Panics == 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A slot that fails too often at one address tries the next, if MoveAfter is set.
func TestMoves(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) {
		o.Addresses, o.Sessions, o.MoveAfter = []string{"x", "y", "a"}, 3, 2
	}, func(w *world) {
		w.wait(0)
		if x, y, a := w.farm.dials("x"), w.farm.dials("y"), w.farm.dials("a"); x != 2 || y != 4 || a != 3 {
			t.Errorf("%d, %d and %d dials", x, y, a)
		}
		w.farm.up("x", nil)
		w.farm.up("y", nil)
		if err := w.pool.SetAddresses([]string{"x", "y", "a"}); err != nil { // spreads anew
			t.Error(err)
		}
		w.wait(0)
		if x, y, a := w.farm.dials("x"), w.farm.dials("y"), w.farm.dials("a"); x != 3 || y != 5 || a != 3 {
			t.Errorf("%d, %d and %d dials", x, y, a)
		}
	})
}
