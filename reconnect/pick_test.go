package reconnect_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// all sessions are picked in turn, also while one of them is ending before the pool has been told.
func TestRoundRobin(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Sessions = 4 }, func(w *world) {
		w.wait(0)
		picked := make(map[*session.Session]int)
		for range 40 {
			picked[w.mine()]++
		}
		for s, n := range picked {
			if n != 10 {
				t.Errorf("%d picks of session %d", n, s.ID())
			}
		}
		all := 0
		for s := range w.pool.Sessions() {
			if all++; picked[s] == 0 {
				t.Error("a session was not picked")
			}
		}
		if all != 4 || w.pool.Len() != 4 {
			t.Errorf("%d of %d sessions", all, w.pool.Len())
		}
		for range w.pool.Sessions() {
			break
		}
		ending := w.mine()
		w.farm.each("a", func(s *session.Session) { _ = s.Write(nil) })
		ending.End(nil, nil) // the session waits for its peer
		for range 40 {
			if w.mine() == ending {
				t.Fatal("a session was picked that had ended")
			}
			if err := w.pool.Send("", []byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The session with the fewest leases is next, and releasing twice does nothing.
func TestLeastPending(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Sessions, o.Policy = 3, reconnect.LeastPending }, func(w *world) {
		w.wait(0)
		leases := make(map[*session.Session][]*reconnect.Lease)
		take := func() *session.Session {
			e, err := w.pool.Acquire("")
			if err != nil {
				t.Fatal(err)
			}
			leases[e.Session()] = append(leases[e.Session()], e)
			return e.Session()
		}
		for range 30 {
			take()
		}
		for s, all := range leases {
			if len(all) != 10 || len(leases) != 3 {
				t.Errorf("%d leases of session %d of %d", len(all), s.ID(), len(leases))
			}
		}
		if st := w.pool.Stats(); st.Pending != 30 {
			t.Errorf("%+v", st)
		}
		idle := w.mine()
		for _, e := range leases[idle] {
			e.Release()
			e.Release()
		}
		for range 10 {
			if s := take(); s != idle {
				t.Errorf("session %d instead of %d", s.ID(), idle.ID())
			}
		}
		for _, all := range leases {
			for _, e := range all {
				e.Release()
			}
		}
	})
}

// A key stays with its session. If a session is lost, its keys move, no other keys do, and they return with the session. All pools choose alike.
func TestByKey(t *testing.T) {
	const keys = 3000
	inWorld(t, func(w *world, o *reconnect.Options) {
		o.Addresses, o.Sessions, o.Policy = []string{"a", "b", "c"}, 6, reconnect.ByKey
		w.farm.up("b", nil)
		w.farm.up("c", nil)
	}, func(w *world) {
		slotOf := make(map[*session.Session]int)
		where := func() (slots []int) {
			for _, ev := range w.rec.events(is(reconnect.Open)) {
				slotOf[ev.Session] = ev.Slot
			}
			for k := range keys {
				s, err := w.pool.Pick(fmt.Sprint("user ", k))
				if err != nil {
					t.Fatal(err)
				}
				slots = append(slots, slotOf[s])
			}
			return slots
		}
		w.wait(0)
		before, counts := where(), make([]int, 6)
		for _, slot := range before {
			counts[slot]++
		}
		for slot, n := range counts {
			if n < keys/6*8/10 || n > keys/6*12/10 { // the same in every run
				t.Errorf("%d of %d keys at slot %d", n, keys, slot)
			}
		}
		lost := w.mine()
		lost.Abort(nil)
		w.rec.await(w.T, 1, is(reconnect.BackingOff))
		to := make(map[int]bool)
		for k, slot := range where() {
			switch {
			case before[k] == slotOf[lost]:
				to[slot] = true
			case slot != before[k]:
				t.Fatalf("key %d moved from %d to %d", k, before[k], slot)
			}
		}
		if len(to) != 5 || to[slotOf[lost]] {
			t.Errorf("the keys of slot %d moved to %v", slotOf[lost], to)
		}
		w.wait(0)
		for k, slot := range where() {
			if slot != before[k] {
				t.Fatalf("key %d did not come back", k)
			}
		}
	})
}

// Pick fails before the start, while no session is open, and after the end, with different errors.
func TestNone(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Addresses = []string{"x", "y"} }, func(w *world) {
		if _, err := w.pool.Pick(""); !errors.Is(err, reconnect.ErrNone) || errors.Is(err, reconnect.ErrGaveUp) {
			t.Errorf("error %v", err)
		}
		w.pool.Start()
		w.pool.Start()
		w.rec.await(w.T, 2, is(reconnect.BackingOff))
		if _, err := w.pool.Acquire(""); !errors.Is(err, reconnect.ErrNone) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("error %v", err)
		}
		if err := w.pool.Send("", nil); !errors.Is(err, reconnect.ErrNone) {
			t.Errorf("error %v", err)
		}
		_ = w.pool.Close()
		if _, err := w.pool.Pick(""); !errors.Is(err, reconnect.ErrClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if err := w.pool.Wait(w.Context(), 1); !errors.Is(err, reconnect.ErrClosed) {
			t.Errorf("error %v", err)
		}
		w.pool.Start()
	})
}

// Sessions whose addresses leave are not picked any more, and end when their leases are released. Other sessions are not affected.
func TestSetAddresses(t *testing.T) {
	for name, drain := range map[string]func(*session.Session){
		"end": nil, "drain": func(s *session.Session) { s.End([]byte("bye\n"), nil) },
		"never": func(*session.Session) {}, "panic": func(*session.Session) { panic(errPlanned) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, o *reconnect.Options) {
				o.Addresses, o.Sessions = []string{"a", "b"}, 4
				o.Handler = &session.Handler{Drain: drain}
				w.farm.up("b", nil)
				w.farm.up("c", nil)
			}, func(w *world) {
				w.wait(0)
				var held, other *reconnect.Lease
				for range 4 {
					e, err := w.pool.Acquire("")
					if err != nil {
						t.Fatal(err)
					}
					switch slot := w.rec.events(func(ev reconnect.Event) bool { return ev.Session == e.Session() })[0]; {
					case slot.Address == "b" && held == nil:
						held = e
					case slot.Address == "a" && other == nil:
						other = e
					default:
						e.Release()
					}
				}
				if err := w.pool.SetAddresses(nil); !errors.Is(err, reconnect.ErrOptions) {
					t.Errorf("error %v", err)
				}
				if err := w.pool.SetAddresses([]string{"c", "a", "c"}); err != nil {
					t.Fatal(err)
				}
				w.wait(0)
				if w.farm.dials("a") != 2 || w.farm.dials("b") != 2 || w.farm.dials("c") != 2 {
					t.Errorf("%d, %d and %d dials", w.farm.dials("a"), w.farm.dials("b"), w.farm.dials("c"))
				}
				for range 8 {
					if w.mine() == held.Session() {
						t.Error("a session was picked that is draining")
					}
				}
				if err := held.Session().Send([]byte("still there")); err != nil {
					t.Error(err)
				}
				if st := w.pool.Stats(); st.Open != 4 || st.Draining < 1 {
					t.Errorf("%+v", st)
				}
				held.Release()
				other.Release()
				closed := w.rec.await(w.T, 2, is(reconnect.Closed))
				if !errors.Is(closed[0].Err, reconnect.ErrRetired) || len(w.rec.events(is(reconnect.Draining))) != 2 {
					t.Errorf("%+v", closed)
				}
				synctest.Wait()
				if w.client.Len() != 4 {
					t.Errorf("%d sessions", w.client.Len())
				}
			})
		})
	}
}

// Leases that are never released, and many changes in a row, do not make draining sessions accumulate.
func TestDrainingIsBounded(t *testing.T) {
	inWorld(t, func(w *world, o *reconnect.Options) {
		o.Sessions = 2
		w.farm.up("b", nil)
	}, func(w *world) {
		for i := range 10 {
			w.wait(0)
			for range 2 {
				e, err := w.pool.Acquire("")
				if err != nil {
					t.Fatal(err)
				}
				defer e.Release()
			}
			if err := w.pool.SetAddresses([]string{[]string{"b", "a"}[i%2]}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if st := w.pool.Stats(); st.Draining > 2 || w.client.Len() > 4 {
				t.Fatalf("%+v, %d sessions", st, w.client.Len())
			}
		}
		pass(11 * time.Second)
		if st := w.pool.Stats(); st.Draining != 0 || w.client.Len() != 2 {
			t.Errorf("%+v, %d sessions", st, w.client.Len())
		}
	})
}

// Addresses may change before the start, while no session is open, and with as many sessions as there are addresses.
func TestSetAddressesWithoutSessions(t *testing.T) {
	inWorld(t, func(_ *world, o *reconnect.Options) { o.Addresses = []string{"x"} }, func(w *world) {
		if err := w.pool.SetAddresses([]string{"x", "y"}); err != nil {
			t.Fatal(err)
		}
		w.pool.Start()
		w.rec.await(w.T, 2, is(reconnect.BackingOff))
		w.farm.setStall(true)
		w.rec.await(w.T, 4, is(reconnect.Connecting))
		w.farm.setStall(false)
		if err := w.pool.SetAddresses([]string{"a"}); err != nil {
			t.Fatal(err)
		}
		w.wait(0)
		if w.pool.Len() != 1 {
			t.Errorf("%d sessions", w.pool.Len())
		}
		w.rec.await(w.T, 2, is(reconnect.Closed))
		_ = w.pool.Close()
		if err := w.pool.SetAddresses([]string{"a"}); !errors.Is(err, reconnect.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}
