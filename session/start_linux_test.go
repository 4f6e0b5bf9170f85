package session_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/session"
)

// joined returns both ends of a TCP connection. The client's end is closed with the test.
func joined(t *testing.T) (client, server net.Conn) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// Other goroutines may find a session, and write to it until there is no room, before it is registered at its loop.
func TestWritingBeforeRegistration(t *testing.T) {
	closed := make(chan session.CloseInfo, 1)
	srv := session.NewServer(line, &session.Handler{
		Open:  func(s *session.Session) error { return s.Send([]byte("open")) },
		Close: func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
	}, &session.Options{Linger: -1})
	t.Cleanup(func() { _ = srv.Close() })
	client, server := joined(t)
	big := make([]byte, 8<<20)
	s := session.ServeLate(srv, server, func(s *session.Session) {
		if err := s.Write(big); err != nil || s.Queued() == 0 {
			t.Errorf("%d bytes are waiting, error %v", s.Queued(), err)
		}
	})
	if _, err := io.ReadFull(client, big); err != nil {
		t.Fatal(err)
	}
	expect(t, client, "open\n")
	s.End(nil, nil)
	if info := receive(t, closed); info.By != session.ByLocal || info.Undelivered != 0 {
		t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
	}
}

// If Shutdown finds a session before it is registered at its loop, Drain is called all the same, also if nothing else has to be done before
// bytes arrive.
func TestShutdownBeforeRegistration(t *testing.T) {
	drained := make(chan *session.Session, 1)
	srv := session.NewServer(line, &session.Handler{Drain: func(s *session.Session) {
		s.End(nil, nil)
		drained <- s
	}}, nil)
	client, server := joined(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	over := make(chan error, 1)
	s := session.ServeLate(srv, server, func(s *session.Session) {
		go func() { over <- srv.Shutdown(ctx) }()
		await(t, func() bool { return session.OwesDrain(srv) })
	})
	if got := receive(t, drained); got != s {
		t.Error("another session was drained")
	}
	_ = client.SetDeadline(time.Now().Add(10 * time.Second))
	expectEnd(t, client)
	_ = client.Close()
	if err := receive(t, over); err != nil {
		t.Error(err)
	}
}
