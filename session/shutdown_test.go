package session_test

import (
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

// answeringHandler blocks before it answers.
func answeringHandler(t *testing.T, st *blocker) session.Handler {
	return session.Handler{Message: func(s *session.Session, msg []byte) {
		st.block(s)
		if err := s.Send(msg); err != nil {
			t.Errorf("the answer: %v", err)
		}
	}}
}

// beginShutdown begins to shut srv down, and returns when Drain is owed to its session.
func beginShutdown(t *testing.T, srv *session.Server) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() { done <- srv.Shutdown(testwait.Context(t)) }()
	await(t, func() bool { return session.OwesDrain(srv) })
	return done
}

// Messages that are being handled when Shutdown is called are answered (smallnest/rpcx#696).
func TestShutdownWaitsForAnswers(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, name := range []string{"inline", "executor"} {
			t.Run(name, func(t *testing.T) {
				st, o := newBlocker(t), new(session.Options)
				if name == "executor" {
					ex := workerpool.NewElastic(nil)
					t.Cleanup(func() { shutDown(t, ex) })
					o.Executor = ex
				}
				f := newFixture(t, tr, line, answeringHandler(t, st), o)
				t.Cleanup(st.release)
				write(t, f.client, "hello\n")
				receive(t, st.blocked)
				done := beginShutdown(t, f.srv)
				st.release()
				expect(t, f.client, "hello\n")
				_ = f.client.Close()
				if err := receive(t, done); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// A receiver answers its message, too, and then asks for the next one.
func TestShutdownWaitsForTheReceiver(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pullFixture(t, tr, nil)
		go func() { _, _ = f.client.Write([]byte("hello\n")) }()
		receiveOne(t, f.s, "hello")
		done := beginShutdown(t, f.srv)
		if err := f.s.Send([]byte("hello")); err != nil {
			t.Error(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := f.s.Receive(testwait.Context(t)); ended <- err }()
		expect(t, f.client, "hello\n")
		_ = f.client.Close()
		if err := receive(t, ended); err == nil {
			t.Error("one more message")
		}
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	})
}

// Datagrams that are being handled are answered.
func TestShutdownWaitsForPackets(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		st := newBlocker(t)
		h := answeringHandler(t, st)
		f := servePackets(t, kind, &h, nil)
		t.Cleanup(st.release)
		conn := f.dial(t)
		write(t, conn, "hello\n")
		receive(t, st.blocked)
		done := beginShutdown(t, f.srv)
		st.release()
		expectPacket(t, conn, "hello\n")
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	})
}
