package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// valveFixture is a server whose socket takes as many datagrams as the test allows, with one session that has received hello.
type valveFixture struct {
	*packetFixture
	v *session.PacketValve
	s *session.Session
}

func newValveFixture(t *testing.T, h *session.Handler, o *session.Options) *valveFixture {
	t.Helper()
	opened := make(chan *session.Session, 10)
	own := *h
	own.Open = func(s *session.Session) error { opened <- s; return nil }
	pc := listenBatches(t)
	f := &valveFixture{packetFixture: &packetFixture{srv: session.NewServer(line, &own, o), at: pc.LocalAddr(), served: make(chan error, 1)}}
	v, serve := session.ServeValve(f.srv, pc)
	f.v = v
	go func() { f.served <- serve() }()
	t.Cleanup(func() { _ = f.srv.Close() })
	write(t, f.dial(t), "hello\n")
	f.s = receive(t, opened)
	await(t, func() bool { return session.PacketsRest(f.srv) })
	return f
}

// Without room the policy decides, and the session lives in any case.
func TestPacketPolicies(t *testing.T) {
	for _, policy := range []session.Policy{session.Wait, session.Refuse, session.DropOldest, session.CloseSlow} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			f := newValveFixture(t, new(session.Handler), &session.Options{Policy: policy, WriteTimeout: 20 * time.Millisecond})
			f.v.Give(1)
			if err := f.s.Send([]byte("first")); err != nil {
				t.Fatal(err)
			}
			want := session.ErrQueueFull
			if policy == session.Wait {
				want = session.ErrTimeout
			}
			for range 3 {
				if err := f.s.Send([]byte("lost")); !errors.Is(err, want) {
					t.Errorf("%v", err)
				}
			}
			await(t, func() bool { return !f.v.Blocked() })
			f.v.Give(1)
			if err := f.s.Write([]byte("second\n")); err != nil {
				t.Error(err)
			}
			got, _ := f.v.Got()
			if st := f.srv.Stats(); !slices.Equal(got, []string{"first\n", "second\n"}) || st.Drops != 3 || st.Sessions != 1 || st.BytesOut != 13 {
				t.Errorf("%q was sent; %+v", got, st)
			}
		})
	}
}

// Callers that wait get room in the order of their calls, or the error of the end.
func TestPacketWait(t *testing.T) {
	f := newValveFixture(t, new(session.Handler), nil)
	errs := make(chan error, 10)
	for i := range 3 {
		go func() { errs <- f.s.Send(fmt.Append(nil, i)) }()
		await(t, func() bool { return session.PacketsSending(f.srv) == i+1 })
	}
	f.v.Give(2)
	for range 2 {
		if err := receive(t, errs); err != nil {
			t.Error(err)
		}
	}
	f.s.Abort(errOurs)
	if err := receive(t, errs); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
		t.Errorf("%v", err)
	}
	if got, _ := f.v.Got(); !slices.Equal(got, []string{"0\n", "1\n"}) {
		t.Errorf("%q was sent", got)
	}
	f.s.Close()
}

// A handler that waits for room delays no other session, and Close ends its wait.
func TestPacketWaitInHandler(t *testing.T) {
	answered := make(chan error, 10)
	f := newValveFixture(t, &session.Handler{Message: func(s *session.Session, msg []byte) {
		switch string(msg) {
		case "wait":
			for err := error(nil); err == nil; { // until nothing more is corked
				err = s.Send(msg)
			}
			answered <- nil
		case "quick":
			answered <- errOurs
		}
	}}, &session.Options{WriteTimeout: -1})
	write(t, f.dial(t), "wait\n")
	await(t, f.v.Blocked)
	write(t, f.dial(t), "quick\n")
	if err := receive(t, answered); !errors.Is(err, errOurs) {
		t.Error("it was not the other session that answered")
	}
	_ = f.srv.Close()
	_ = receive(t, answered)
	_ = receive(t, f.served)
}

// TryWrite sends as many frames as there is room for, and holds one more, which finds out when there is room.
func TestPacketTryWrite(t *testing.T) {
	writable := make(chan bool, 10)
	f := newValveFixture(t, &session.Handler{Writable: func(*session.Session) { writable <- true }}, nil)
	frames := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}
	f.v.Give(2)
	if n, err := f.s.TryWrite(frames); n != 3 || err != nil {
		t.Fatalf("took %d, %v", n, err)
	}
	for range 2 {
		if n, err := f.s.TryWrite(frames[3:]); n != 0 || err != nil {
			t.Fatalf("took %d, %v", n, err)
		}
	}
	select {
	case <-writable:
		t.Fatal("Writable was called without room")
	default:
	}
	f.v.Give(1)
	receive(t, writable)
	f.v.Give(1)
	if n, err := f.s.TryWrite(frames[3:]); n != 1 || err != nil {
		t.Fatalf("took %d, %v", n, err)
	}
	if got, _ := f.v.Got(); !slices.Equal(got, []string{"a", "b", "c", "d"}) || len(writable) != 0 {
		t.Errorf("%q was sent", got)
	}
	f.s.Close()
	if n, err := f.s.TryWrite(frames); n != 0 || !errors.Is(err, session.ErrClosed) {
		t.Errorf("took %d, %v", n, err)
	}
}

// Datagrams that are sent while one batch is handled leave together, and each message is a datagram.
func TestPacketCorks(t *testing.T) {
	h := echo()
	srv := session.NewServer(line, &h, nil)
	defer srv.Close()
	pc := listenBatches(t)
	f := &packetFixture{srv: srv, at: pc.LocalAddr()}
	const datagrams = 40
	var want []string
	for range datagrams / 4 {
		conn := f.dial(t)
		for range 4 {
			write(t, conn, "a\nb\n")
			want = append(want, "a\n", "b\n")
		}
	}
	v, serve := session.ServeValve(srv, pc)
	v.Give(10 * datagrams)
	served := make(chan error, 1)
	go func() { served <- serve() }()
	await(t, func() bool { got, _ := v.Got(); return len(got) == 2*datagrams })
	if got, calls := v.Got(); !slices.Equal(got, want) || calls > 12 {
		t.Errorf("%q was sent in %d calls", got, calls)
	}
	_ = srv.Close()
	_ = receive(t, served)
}

// If there is no room, corked datagrams wait or are dropped, as the policy says.
func TestPacketCorkedWithoutRoom(t *testing.T) {
	for _, policy := range []session.Policy{session.Wait, session.Refuse} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			f := newValveFixture(t, &session.Handler{Message: func(s *session.Session, msg []byte) {
				if string(msg) != "hello" {
					_ = s.Write([]byte("1"))
					_ = s.Write([]byte("2"))
				}
			}}, &session.Options{Policy: policy})
			f.v.Give(1)
			write(t, f.dial(t), "go\n")
			if policy == session.Wait {
				await(t, f.v.Blocked)
				f.v.Give(1)
				await(t, func() bool { got, _ := f.v.Got(); return slices.Equal(got, []string{"1", "2"}) })
				return
			}
			await(t, func() bool { return f.srv.Stats().Drops == 1 })
		})
	}
}

// A handler that blocks delays neither its own datagrams nor those of others.
func TestPacketSlowHandlerHoldsNothingBack(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		release := make(chan bool)
		f := servePackets(t, kind, &session.Handler{Message: func(s *session.Session, msg []byte) {
			_ = s.Send(msg)
			testwait.Hold(t, release)
		}}, nil)
		conn := f.dial(t)
		write(t, conn, "x\n")
		expectPacket(t, conn, "x\n")
		close(release)
	})
}

// The messages of sessions over a shared socket can be received, too.
func TestPacketPull(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		f := servePackets(t, kind, &session.Handler{Pull: true, Open: func(s *session.Session) error {
			go func() {
				var err error
				for msg := range s.Messages(context.Background(), &err) {
					_ = s.Send(msg)
				}
			}()
			return nil
		}}, nil)
		a, b := f.dial(t), f.dial(t)
		for i := range 50 {
			want := fmt.Sprintf("%d\n", i)
			write(t, a, want)
			write(t, b, want)
			expectPacket(t, a, want)
			expectPacket(t, b, want)
		}
	})
}

// A session over datagrams that waits for room in a batch holds no other session of the batch up.
func TestBatchWithADatagramSessionThatWaits(t *testing.T) {
	overSome(t, direct, func(t *testing.T, tr transport) {
		f := newValveFixture(t, new(session.Handler), &session.Options{WriteTimeout: -1})
		peers, sessions := dialMany(t, tr, 2, nil)
		sent := make(chan bool)
		go func() {
			defer close(sent)
			session.SendAll([]session.SendItem{
				{Session: sessions[0], As: bareFrame{}, Msg: []byte("one\n")},
				{Session: f.s, As: bareFrame{}, Msg: []byte("two\n")},
				{Session: sessions[1], As: bareFrame{}, Msg: []byte("three\n")},
			})
		}()
		await(t, func() bool { return session.PacketsSending(f.srv) == 1 })
		expect(t, peers[0], "one\n")
		f.v.Give(1)
		receive(t, sent)
		expect(t, peers[1], "three\n")
		_ = f.srv.Close()
	})
}
