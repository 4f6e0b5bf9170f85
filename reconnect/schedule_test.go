package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// trouble is one disturbance, and the time until the next.
type trouble struct {
	What      string
	Address   string
	Addresses []string
	Wait      time.Duration
}

var troubles = []string{
	"up", "up", "up", "down", "end", "cut", "cut mine", "end mine", "refuse", "accept", "stall", "go on",
	"resume ok", "resume ok", "resume fails", "resume panics", "resume exits", "resume hangs", "callback panics", "callback ok",
	"addresses", "acquire", "release", "wait", "pick",
}

// script draws a list of disturbances.
func script(t *rapid.T) []trouble {
	address := rapid.SampledFrom([]string{"a", "b", "c"})
	one := rapid.Custom(func(t *rapid.T) trouble {
		return trouble{
			What:      rapid.SampledFrom(troubles).Draw(t, "what"),
			Address:   address.Draw(t, "address"),
			Addresses: rapid.SliceOfNDistinct(address, 1, 3, rapid.ID).Draw(t, "addresses"),
			Wait:      time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 300, 1000, 3000, 20_000}).Draw(t, "wait")) * time.Millisecond,
		}
	})
	return rapid.SliceOfN(one, 5, 40).Draw(t, "script")
}

// stage is the environment in which a script is played.
type stage struct {
	*world
	mu      sync.Mutex
	resume  string
	panics  bool
	refuses bool
	spread  bool        // the addresses have been changed
	live    map[int]int // sessions by slot
	leases  []*reconnect.Lease
	waits   sync.WaitGroup // callers of Wait
}

// Whatever happens, and whenever the pool is closed, each slot changes its state only in legal ways, has at most one session, and recovers when
// the disturbances are over. After Close no session, goroutine or timer is left, and no function is called.
func TestAnySchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script, n := script(rt), rapid.IntRange(0, 5).Draw(rt, "sessions")
		o := reconnect.Options{
			Addresses: []string{"a", "b"}, Sessions: n, Base: 100 * time.Millisecond, Cap: 2 * time.Second, StableAfter: time.Second,
			Policy:    reconnect.Policy(rapid.IntRange(0, 3).Draw(rt, "policy")), //nolint:gosec // it is small
			MoveAfter: rapid.IntRange(0, 2).Draw(rt, "move"), DrainTimeout: 5 * time.Second, ResumeTimeout: 3 * time.Second,
		}
		closeAt := rapid.IntRange(-30, len(script)).Draw(rt, "close")
		gently := rapid.Bool().Draw(rt, "gently")
		var fault error
		synctest.Test(t, func(t *testing.T) { fault = play(t, o, script, closeAt, gently) })
		if fault != nil {
			rt.Fatal(fault)
		}
	})
}

// play plays a script, and ends the pool during disturbance closeAt.
func play(t *testing.T, o reconnect.Options, script []trouble, closeAt int, gently bool) error {
	w := &world{T: t, farm: newFarm("a", "b"), rec: newRecorder()}
	g := &stage{world: w, resume: "resume ok", live: make(map[int]int)}
	w.client = session.NewClient(codec.Line{}, nil, &session.Options{Engine: session.EngineGoroutine, Linger: time.Second})
	o.Dial, o.State, o.Resume, o.Attach = w.farm.dial, w.rec.state, g.resumed, g.attach
	w.rec.also = g.misbehave
	pool, err := reconnect.New(w.client, &o)
	if err != nil {
		return err
	}
	w.pool = pool
	pool.Start()
	for i, what := range script {
		if i == closeAt {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			g.waits.Go(func() {
				if gently {
					_ = pool.Shutdown(ctx)
				}
				_ = pool.Close()
			})
		}
		g.happens(what)
		<-time.After(what.Wait)
		g.bounded(o.Sessions)
	}
	g.heal(closeAt < 0 || closeAt >= len(script))
	_ = pool.Close()
	testwait.Return(t, g.waits.Wait)
	g.release()
	if err := w.rec.end(); err != nil {
		return err
	}
	if len(g.live) != 0 || w.client.Len() != 0 {
		return fmt.Errorf("%v, %d sessions are left", g.live, w.client.Len())
	}
	w.end()
	return nil
}

// attach counts the sessions of a slot.
func (g *stage) attach(slot int, _ string) *session.Attach {
	return &session.Attach{Handler: &session.Handler{
		Open: func(*session.Session) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.live[slot]++; g.live[slot] > 1 {
				g.rec.fault("slot %d has %d sessions", slot, g.live[slot])
			}
			if g.refuses {
				return errPlanned
			}
			return nil
		},
		Close: func(*session.Session, *session.CloseInfo) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.live[slot]--; g.live[slot] == 0 {
				delete(g.live, slot)
			}
			g.rec.mu.Lock()
			defer g.rec.mu.Unlock()
			if g.rec.closed {
				g.rec.faultLocked("Close of a handler after Close of the pool")
			}
		},
	}}
}

func (g *stage) resumed(ctx context.Context, s *session.Session) error {
	g.mu.Lock()
	how := g.resume
	g.mu.Unlock()
	switch how {
	case "resume fails":
		return errPlanned
	case "resume panics":
		panic(errPlanned)
	case "resume exits":
		runtime.Goexit()
	case "resume hangs":
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Send([]byte("login"))
}

func (g *stage) misbehave(reconnect.Event) {
	g.mu.Lock()
	panics := g.panics
	g.mu.Unlock()
	if panics {
		panic(errPlanned)
	}
}

// happens causes one disturbance.
func (g *stage) happens(what trouble) {
	switch what.What {
	case "up":
		g.farm.up(what.Address, nil)
	case "down":
		g.farm.down(what.Address)
	case "end":
		g.farm.each(what.Address, func(s *session.Session) { s.End([]byte("bye\n"), nil) })
	case "cut":
		g.farm.each(what.Address, func(s *session.Session) { s.Abort(nil) })
	case "stall", "go on":
		g.farm.setStall(what.What == "stall")
	case "addresses":
		g.spread = true
		if err := g.pool.SetAddresses(what.Addresses); err != nil && !errors.Is(err, reconnect.ErrClosed) {
			g.rec.fault("addresses: %v", err)
		}
	case "cut mine", "end mine", "acquire", "pick":
		g.picks(what.What)
	case "release":
		g.release()
	case "wait":
		ctx, cancel := context.WithTimeout(g.Context(), 5*time.Second)
		g.waits.Go(func() {
			defer cancel()
			if err := g.pool.Wait(ctx, 2); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, reconnect.ErrClosed) {
				g.rec.fault("wait: %v", err)
			}
		})
	default:
		g.set(what.What)
	}
}

// set changes the behaviour of the functions of the options from now on.
func (g *stage) set(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch what {
	case "refuse", "accept":
		g.refuses = what == "refuse"
	case "callback panics", "callback ok":
		g.panics = what == "callback panics"
	default:
		g.resume = what
	}
}

// picks picks an open session and calls one of its methods.
func (g *stage) picks(what string) {
	e, err := g.pool.Acquire(what)
	switch {
	case errors.Is(err, reconnect.ErrNone), errors.Is(err, reconnect.ErrClosed):
		return
	case err != nil:
		g.rec.fault("acquire: %v", err)
		return
	}
	if what == "acquire" {
		g.leases = append(g.leases, e)
		return
	}
	switch s := e.Session(); what {
	case "cut mine":
		s.Abort(nil)
	case "end mine":
		s.End(nil, nil)
	default:
		if err := s.Send([]byte("hello")); err != nil && !errors.Is(err, session.ErrClosed) {
			g.rec.fault("send: %v", err)
		}
	}
	e.Release()
}

func (g *stage) release() {
	for _, e := range g.leases {
		e.Release()
	}
	g.leases = nil
}

// bounded checks that there are not more sessions than allowed.
func (g *stage) bounded(n int) {
	if n == 0 { // one for each address
		n = 3
	}
	if !g.spread && g.client.Len() > n || g.pool.Len() > n || g.client.Len() > 3*n {
		g.rec.fault("%d sessions, %d open, of %d", g.client.Len(), g.pool.Len(), n)
	}
}

// heal ends all disturbances, and waits until all sessions that may be open are open.
func (g *stage) heal(back bool) {
	for _, a := range []string{"a", "b", "c"} {
		g.farm.up(a, nil)
	}
	g.farm.setStall(false)
	for _, what := range []string{"accept", "callback ok", "resume ok"} {
		g.set(what)
	}
	if !back {
		return
	}
	ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
	defer cancel()
	if err := g.pool.Wait(ctx, 0); err != nil {
		g.rec.fault("not all are back: %v: %+v", err, g.pool.Stats())
	}
}
