package session_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

// A function on an executor that says that messages are to be received does not keep the executor until somebody does. What has arrived
// by then is received all the same.
func TestPullBeginsOnAnExecutor(t *testing.T) {
	const more = 1000
	another := strings.Repeat("another", 30)
	for _, where := range []string{"open", "message"} {
		t.Run(where, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
				pulls := make(chan *session.Session, 1)
				pull := func(s *session.Session) {
					s.SetHandler(&session.Handler{Pull: true})
					pulls <- s
				}
				h := session.Handler{
					Open: func(s *session.Session) error {
						if s.ID() == 2 && where == "open" {
							pull(s)
						}
						return nil
					},
					Message: func(s *session.Session, msg []byte) {
						if string(msg) == "pull" {
							pull(s)
							return
						}
						_ = s.Send(msg)
					},
				}
				f := newFixture(t, tr, line, h, &session.Options{Executor: ex})
				c := f.dial()
				said := "first\n" + strings.Repeat(another+"\n", more)
				if where == "message" {
					said = "pull\n" + said
				}
				sent := make(chan error, 1)
				go func() { // nobody may read yet
					_, err := io.WriteString(c, said)
					sent <- err
				}()
				s := receive(t, pulls)
				write(t, f.client, "hello\n")
				expect(t, f.client, "hello\n")
				receiveOne(t, s, "first")
				for range more {
					receiveOne(t, s, another)
				}
				if err := receive(t, sent); err != nil {
					t.Error(err)
				}
				_ = c.Close()
				_ = f.srv.Close()
				shutDown(t, ex)
			})
		})
	}
}
