package session_test

import (
	"io"
	"net"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// A session may be found, and written to until there is no room, before its loop knows of it.
func TestWritingBeforeTheLoopKnows(t *testing.T) {
	closed := make(chan session.CloseInfo, 1)
	srv := session.NewServer(line, &session.Handler{
		Open:  func(s *session.Session) error { return s.Send([]byte("open")) },
		Close: func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
	}, &session.Options{Linger: -1})
	t.Cleanup(func() { _ = srv.Close() })
	ln := listen(t, "tcp", "127.0.0.1:0")
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
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
