package session_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

// A function on an executor changes the handler to Pull. It does not occupy the executor until a receiver asks. Bytes that have arrived by then
// are received, too.
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
				go func() { // the server may not read yet
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

// Over datagrams the same holds for the rest of a datagram, and for datagrams that came after it.
func TestPullBeginsOnAnExecutorOverDatagrams(t *testing.T) {
	for _, where := range []string{"open", "message"} {
		overPackets(t, func(t *testing.T, kind packetKind) {
			if kind.executor { // this test brings an executor of its own
				return
			}
			ex := workerpool.NewShared(&workerpool.Options{Workers: 1})
			pulls := make(chan *session.Session, 1)
			resume := make(chan struct{})
			pull := func(s *session.Session) {
				pulls <- s
				testwait.Hold(t, resume)
				s.SetHandler(&session.Handler{Pull: true})
			}
			var opened atomic.Int32
			f := servePackets(t, kind, &session.Handler{
				Open: func(s *session.Session) error {
					if opened.Add(1) == 1 && where == "open" {
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
			}, &session.Options{Executor: ex})
			c, other := f.dial(t), f.dial(t)
			said := "first\nsecond\n"
			if where == "message" {
				said = "pull\n" + said
			}
			write(t, c, said)
			s := receive(t, pulls)
			write(t, c, "third\nfourth\n")
			waiting := 1
			if where == "open" { // Open runs on the first one's task, too
				waiting = 2
			}
			await(t, func() bool { return session.PacketBacklog(f.srv) == waiting })
			close(resume)
			write(t, other, "hello\n")
			expectPacket(t, other, "hello\n")
			write(t, c, "fifth\n")
			for _, want := range []string{"first", "second", "third", "fourth", "fifth"} {
				receiveOne(t, s, want)
			}
			_ = f.srv.Close()
			shutDown(t, ex)
			if st := f.srv.Stats(); st.BadDatagrams != 0 || st.LostDatagrams != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}
