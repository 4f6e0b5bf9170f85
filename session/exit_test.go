package session_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// fatalCodec is a codec that calls end when it is to encode "bad".
type fatalCodec struct {
	codec.Line
	end func()
}

func (c fatalCodec) AppendEncode(dst, msg []byte) ([]byte, error) {
	if string(msg) == "bad" {
		c.end()
	}
	return c.Line.AppendEncode(dst, msg)
}

// If a function panics or ends its goroutine, its session ends, Close is called once, and the server goes on.
func TestAFunctionThatDoesNotReturn(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit}
	functions := map[string]func(end func()) session.Handler{
		"open": func(end func()) session.Handler {
			return session.Handler{Open: func(*session.Session) error { end(); return nil }}
		},
		"message": func(end func()) session.Handler {
			return session.Handler{Message: func(*session.Session, []byte) { end() }}
		},
		"tick":     func(end func()) session.Handler { return session.Handler{Tick: func(*session.Session) { end() }} },
		"writable": func(end func()) session.Handler { return session.Handler{Writable: func(*session.Session) { end() }} },
		"encode": func(func()) session.Handler {
			return session.Handler{Message: func(s *session.Session, _ []byte) { _ = s.Send([]byte("bad")) }}
		},
		"encode in open": func(func()) session.Handler {
			return session.Handler{Open: func(s *session.Session) error { return s.Send([]byte("bad")) }}
		},
	}
	for how, end := range ends {
		for name, handler := range functions {
			t.Run(name+" "+how, func(t *testing.T) {
				over(t, func(t *testing.T, tr transport) { endBadly(t, tr, name, handler(end), fatalCodec{line, end}) })
			})
		}
	}
}

func endBadly(t *testing.T, tr transport, name string, h session.Handler, c session.Codec) {
	closed := make(chan session.CloseInfo, 2)
	h.Close = func(_ *session.Session, info *session.CloseInfo) { closed <- *info }
	o := smallBuffers()
	o.Engine = tr.engine
	if name == "tick" {
		o.TickInterval = time.Millisecond
	}
	srv := session.NewServer(c, &h, o)
	t.Cleanup(func() { _ = srv.Close() })
	client, err := tr.start(t, srv)()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	switch name {
	case "writable":
		await(t, func() bool { return srv.Stats().Opened == 1 })
		for s := range srv.Sessions() {
			fill(t, s)
		}
	case "message", "encode":
		_, _ = io.WriteString(client, "hello\n")
	}
	go func() { _, _ = io.Copy(io.Discard, client) }()
	info := receive(t, closed)
	var pe *session.PanicError
	if info.By != session.ByPanic || !errors.As(info.Err, &pe) {
		t.Errorf("ended by %v, %v", info.By, info.Err)
	}
	_ = srv.Close()
	if st := srv.Stats(); len(closed) != 0 || st.Panics != 1 || st.Sessions != 0 || st.Closed != 1 {
		t.Errorf("%+v", st)
	}
}

// Close of the handler comes last. If it does not return, the session has ended nevertheless.
func TestCloseThatDoesNotReturn(t *testing.T) {
	for how, end := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		t.Run(how, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				h := echo()
				h.Close = func(*session.Session, *session.CloseInfo) { end() }
				f := newFixture(t, tr, line, h, nil)
				second := f.dial()
				write(t, second, "hello\n")
				expect(t, second, "hello\n")
				f.s.Close()
				write(t, second, "still here\n")
				expect(t, second, "still here\n")
				_ = f.srv.Close()
				if st := f.srv.Stats(); st.Panics != 2 || st.Sessions != 0 || st.Closed != 2 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A refused connection gives no session, so there is nothing to wait for.
func TestARefusedConnectionHasNoSession(t *testing.T) {
	srv := session.NewServer(line, nil, nil)
	_ = srv.Close()
	tcp := listen(t, "tcp", "127.0.0.1:0")
	defer tcp.Close()
	client, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := srv.ServeConn(server, nil); s != nil || !errors.Is(err, session.ErrServerClosed) {
		t.Errorf("session %v, error %v", s, err)
	}
}

// After a codec has panicked in a Send outside handlers, the session still works.
func TestSendThatPanics(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, fatalCodec{line, func() { panic("boom") }}, echo(), nil)
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("Send did not panic")
				}
			}()
			_ = f.s.Send([]byte("bad"))
		}()
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
	})
}

// The bytes that the connection took of a TryWrite during which the session ended count as taken, and not as undelivered.
func TestEndedDuringATryWrite(t *testing.T) {
	f, v := valve(t, session.Handler{}, nil)
	big := strings.Repeat("b", 150_000) // takes two writes
	all := big + "x\n3"
	v.Give(len(all))
	v.During(func() {
		_ = f.s.Send([]byte("x"))
		v.During(func() { f.s.Abort(nil) })
	})
	taken, _ := f.s.TryWrite(frames(big, "3\n"))
	if info := receive(t, f.closed); taken != 2 || v.Got() != all || info.Undelivered != 1 {
		t.Errorf("%d frames were taken, %d bytes written, to %q, %d bytes undelivered", taken, len(v.Got()), v.Got()[len(v.Got())-5:], info.Undelivered)
	}
}

// After a handler has ended its goroutine during a read, frames are not corked any more.
func TestSendAfterAnExit(t *testing.T) {
	f := newFixture(t, transports[0], line, session.Handler{Message: func(s *session.Session, _ []byte) {
		_ = s.Send([]byte("last"))
		runtime.Goexit()
	}}, nil)
	write(t, f.client, "go\n")
	expect(t, f.client, "last\n")
	if info := receive(t, f.closed); info.Undelivered != 0 {
		t.Errorf("%d bytes undelivered", info.Undelivered)
	}
	if err := f.s.Send([]byte("late")); !errors.Is(err, session.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if n := session.CorkedSessions(f.srv); n != 0 {
		t.Errorf("%d sessions are watched", n)
	}
}

// Handled messages are counted although the handler of the last one ends its goroutine.
func TestMessagesOfAHandlerThatEndsItsGoroutineAreCounted(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, session.Handler{Message: func(_ *session.Session, msg []byte) {
			if string(msg) == "exit" {
				runtime.Goexit()
			}
		}}, nil)
		write(t, f.client, "hello\nhello\nexit\nnever\n")
		receive(t, f.closed)
		if n := f.srv.Stats().Messages; n != 3 {
			t.Errorf("%d messages were counted, not 3", n)
		}
	})
}
