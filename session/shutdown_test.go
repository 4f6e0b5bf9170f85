package session_test

import (
	"testing"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

// answering is a handler that waits for goOn before it answers.
func answering(t *testing.T, st *stage) session.Handler {
	return session.Handler{Message: func(s *session.Session, msg []byte) {
		st.block(s)
		if err := s.Send(msg); err != nil {
			t.Errorf("the answer: %v", err)
		}
	}}
}

// shutsDown begins to shut the server of f down, and returns when its session is left for later.
func shutsDown(t *testing.T, srv *session.Server) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() { done <- srv.Shutdown(bounded(t)) }()
	await(t, func() bool { return session.OwesDrain(srv) })
	return done
}

// What is being handled when Shutdown is called is answered (smallnest/rpcx#696).
func TestShutdownWaitsForAnswers(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, name := range []string{"inline", "executor"} {
			t.Run(name, func(t *testing.T) {
				st, o := newStage(t), new(session.Options)
				if name == "executor" {
					ex := workerpool.NewElastic(nil)
					t.Cleanup(func() { shutDown(t, ex) })
					o.Executor = ex
				}
				f := newFixture(t, tr, line, answering(t, st), o)
				t.Cleanup(st.release)
				write(t, f.client, "hello\n")
				receive(t, st.blocked)
				done := shutsDown(t, f.srv)
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

// A receiver answers too, and asks again.
func TestShutdownWaitsForTheReceiver(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := pulling(t, tr, nil)
		go func() { _, _ = f.client.Write([]byte("hello\n")) }()
		receiveOne(t, f.s, "hello")
		done := shutsDown(t, f.srv)
		if err := f.s.Send([]byte("hello")); err != nil {
			t.Error(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := f.s.Receive(bounded(t)); ended <- err }()
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
		st := newStage(t)
		h := answering(t, st)
		f := servePackets(t, kind, &h, nil)
		t.Cleanup(st.release)
		conn := f.dial(t)
		write(t, conn, "hello\n")
		receive(t, st.blocked)
		done := shutsDown(t, f.srv)
		st.release()
		expectPacket(t, conn, "hello\n")
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	})
}
