package session_test

import (
	"errors"
	"io"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// The last message of a peer comes together with its end, while the session handles an earlier message. Both are handled, whatever the session
// has done before.
func TestLastMessageWithTheEnd(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.name != "pipe" && tr.name != "memory" && tr.name != "wrapped" }, func(t *testing.T, tr transport) {
		for _, exchanges := range []int{0, 1, 50} {
			said := make(chan string, 1)
			resume := make(chan struct{})
			f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) {
				switch text := string(msg); text {
				case "pause":
					said <- text
					testwait.Hold(t, resume)
				case "last":
					said <- text
				default:
					_ = s.Send(msg)
				}
			}}, nil)
			for range 3 { // other sessions of the server
				echoes(t, f.dial(), "hello\n")
			}
			for range exchanges {
				write(t, f.client, "hello\n")
				expect(t, f.client, "hello\n")
			}
			write(t, f.client, "pause\n")
			receive(t, said)
			write(t, f.client, "last\n")
			if err := f.client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			close(resume)
			if text := receive(t, said); text != "last" {
				t.Errorf("%q was said last", text)
			}
			if info := receive(t, f.closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) {
				t.Errorf("it ended %v: %v", info.By, info.Err)
			}
		}
	})
}
