package session_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

func TestThePeerEnds(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		write(t, f.client, "hello\n")
		expect(t, f.client, "hello\n")
		_ = f.client.Close()
		info := receive(t, f.closed)
		if info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) || info.Undelivered != 0 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
	})
}

func TestThePeerEndsInAMessage(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), nil)
		write(t, f.client, "hel")
		_ = f.client.Close()
		if info := receive(t, f.closed); info.By != session.ByPeer || !errors.Is(info.Err, io.ErrUnexpectedEOF) {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
	})
}

// A peer that has half-closed still gets the answers.
func TestThePeerHalfCloses(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.halfCloses }, func(t *testing.T, tr transport) {
		big := strings.Repeat("x", 50_000) + "\n"
		f := newFixture(t, tr, line, echo(), smallBuffers())
		c := f.client.(interface{ CloseWrite() error })
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(f.client, strings.Repeat(big, 5))
			if err == nil {
				err = c.CloseWrite()
			}
			sent <- err
		}()
		expect(t, f.client, strings.Repeat(big, 5))
		if rest := expectEnd(t, f.client); rest != "" {
			t.Errorf("%d bytes too many", len(rest))
		}
		if err := receive(t, sent); err != nil {
			t.Error(err)
		}
		if info := receive(t, f.closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) || info.Undelivered != 0 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
	})
}

// End writes all queued frames and then the last frame, and waits for the peer. Messages that the peer sends after that are not handled.
func TestEndWithAnAnsweringPeer(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		cause := errors.New("enough")
		handled := make(chan string, 10)
		o := smallBuffers()
		f := newFixture(t, tr, line, session.Handler{Message: func(s *session.Session, msg []byte) { handled <- string(msg) }}, o)
		big := strings.Repeat("x", 20_000)
		for range 2 {
			if err := f.s.Send([]byte(big)); err != nil {
				t.Fatal(err)
			}
		}
		f.s.End([]byte("goodbye\n"), cause)
		f.s.End([]byte("again\n"), nil)
		if err := f.s.Send(nil); !errors.Is(err, session.ErrClosed) || !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
		if got, want := expectEnd(t, f.client), big+"\n"+big+"\ngoodbye\n"; got != want {
			t.Errorf("received %d bytes, want %d", len(got), len(want))
		}
		if tr.halfCloses {
			write(t, f.client, "too late\n")
		}
		_ = f.client.Close()
		info := receive(t, f.closed)
		if info.By != session.ByLocal || !errors.Is(info.Err, cause) || info.Undelivered != 0 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
		if len(handled) != 0 {
			t.Errorf("%q was handled", testwait.Receive(t, handled))
		}
	})
}

func TestEndWithASilentPeer(t *testing.T) {
	for _, linger := range []time.Duration{10 * time.Millisecond, -1} {
		over(t, func(t *testing.T, tr transport) {
			o := smallBuffers()
			o.Linger = linger
			f := newFixture(t, tr, line, session.Handler{}, o)
			f.s.End([]byte("goodbye\n"), nil)
			expect(t, f.client, "goodbye\n")
			info := receive(t, f.closed) // although the client does not end its side
			if info.By != session.ByLocal || !errors.Is(info.Err, session.ErrClosed) || info.Undelivered != 0 {
				t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
			}
		})
	}
}

// If the peer does not read the queued frames, the session ends after a time-out. So it does if the peer never stops sending.
func TestEndWithAPeerThatDoesNotEnd(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		for _, talks := range []bool{false, true} {
			o := smallBuffers()
			o.Linger, o.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
			f := newFixture(t, tr, line, session.Handler{}, o)
			taken := 1
			for big := [][]byte{make([]byte, 200_000)}; taken > 0 && !talks; {
				taken, _ = f.s.TryWrite(big)
			}
			f.s.End([]byte("goodbye\n"), nil)
			if talks {
				for err := error(nil); err == nil; {
					_, err = f.client.Write([]byte("blah\n"))
				}
			}
			info := receive(t, f.closed)
			if info.By != session.ByLocal || tr.name == "pipe" && !talks && info.Undelivered == 0 {
				t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
			}
		}
	})
}

// A peer that takes a byte now and then makes progress, but the session waits no longer than both time limits together.
func TestEndWithAPeerThatDribbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writeTimeout, linger = 10 * time.Second, 5 * time.Second
		var v *session.ValveStream
		closed := make(chan session.CloseInfo, 1)
		srv := session.NewServer(line, &session.Handler{
			Open:  func(s *session.Session) error { v = session.Valve(s); return s.Send(make([]byte, 1000)) },
			Close: func(_ *session.Session, info *session.CloseInfo) { closed <- *info },
		}, &session.Options{WriteTimeout: writeTimeout, Linger: linger})
		client, server := net.Pipe()
		defer client.Close()
		s, err := srv.ServeConn(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		s.End(nil, nil)
		for len(closed) == 0 && time.Since(start) < time.Minute {
			v.Give(1)
			<-time.After(time.Second)
			synctest.Wait()
		}
		if took := time.Since(start); took != writeTimeout+linger {
			t.Errorf("it took %v", took)
		}
		_ = srv.Close()
		if info := <-closed; info.By != session.ByLocal || info.Undelivered < 900 {
			t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
		}
	})
}

func TestCloseFromHandlers(t *testing.T) {
	closer := func(s *session.Session) { s.Close() }
	tests := map[string]session.Handler{
		"open":     {Open: func(s *session.Session) error { s.Close(); return nil }},
		"message":  {Message: func(s *session.Session, _ []byte) { s.Close() }},
		"writable": {Writable: closer},
		"close":    {Close: func(s *session.Session, _ *session.CloseInfo) { s.Close() }},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, line, h, smallBuffers())
				switch name {
				case "message":
					write(t, f.client, "hello\nhello\n")
				case "writable":
					fill(t, f.s)
					go func() { _, _ = io.Copy(io.Discard, f.client) }()
				case "close":
					_ = f.client.Close()
				}
				receive(t, f.closed)
				f.s.Close() // the session is ending, so this only waits
				if len(f.closed) != 0 {
					t.Error("Close was called twice")
				}
			})
		})
	}
}

// fill offers frames until the session takes no more.
func fill(t testing.TB, s *session.Session) {
	t.Helper()
	for frame := [][]byte{make([]byte, 1000)}; ; {
		taken, err := s.TryWrite(frame)
		if err != nil {
			t.Fatal(err)
		}
		if taken == 0 {
			return
		}
	}
}

// If the handlers of two sessions close each other's session, they do not deadlock.
func TestHandlersThatCloseEachOther(t *testing.T) {
	met := make(chan struct{})
	var f *fixture
	ready := make(chan struct{})
	f = newFixture(t, transports[0], line, session.Handler{Message: func(s *session.Session, _ []byte) {
		testwait.Hold(t, ready)
		select {
		case met <- struct{}{}:
		case <-met:
		}
		for other := range f.srv.Sessions() {
			if other != s {
				other.Close()
			}
		}
	}}, nil)
	second := f.dial()
	await(t, func() bool { return f.srv.Len() == 2 })
	close(ready)
	write(t, f.client, "go\n")
	write(t, second, "go\n")
	receive(t, f.closed)
	receive(t, f.closed)
}

// After Close has returned, no function of the session is running.
func TestCloseWaits(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		running, resume := make(chan struct{}), make(chan struct{})
		finished := false
		f := newFixture(t, tr, line, session.Handler{
			Message: func(*session.Session, []byte) { close(running); testwait.Hold(t, resume) },
			Close:   func(*session.Session, *session.CloseInfo) { finished = true },
		}, nil)
		write(t, f.client, "hello\n")
		receive(t, running)
		done := make(chan struct{})
		go func() {
			f.s.Close()
			if !finished {
				t.Error("Close came back too early")
			}
			close(done)
		}()
		expectEnd(t, f.client) // the peer gets the end at once
		close(resume)
		receive(t, done)
	})
}

func TestPanics(t *testing.T) {
	boom := func() { panic("boom") }
	tests := map[string]struct {
		h    session.Handler
		by   session.By
		goes bool
	}{
		"open":         {session.Handler{Open: func(*session.Session) error { boom(); return nil }}, session.ByPanic, false},
		"message":      {session.Handler{Message: func(*session.Session, []byte) { boom() }}, session.ByPanic, false},
		"message exit": {session.Handler{Message: func(*session.Session, []byte) { runtime.Goexit() }}, session.ByPanic, false},
		"writable":     {session.Handler{Writable: func(*session.Session) { boom() }}, session.ByPanic, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				logger := new(recorder)
				o := smallBuffers()
				o.Logger = logger.logger()
				closed := make(chan session.CloseInfo, 1)
				h := tt.h
				h.Close = func(_ *session.Session, info *session.CloseInfo) { closed <- *info }
				srv := session.NewServer(line, &h, o)
				t.Cleanup(func() { _ = srv.Close() })
				client, err := tr.start(t, srv)()
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if name == "writable" {
					await(t, func() bool { return srv.Stats().Opened == 1 })
					for s := range srv.Sessions() {
						fill(t, s)
					}
				} else {
					_, _ = io.WriteString(client, "hello\n")
				}
				go func() { _, _ = io.Copy(io.Discard, client) }()
				info := receive(t, closed)
				var pe *session.PanicError
				if info.By != tt.by || !errors.As(info.Err, &pe) || len(pe.Stack) == 0 {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
				if !strings.Contains(name, "exit") && pe.Value != "boom" {
					t.Errorf("panic value %v", pe.Value)
				}
				if st := srv.Stats(); st.Panics != 1 {
					t.Errorf("%d panics were counted", st.Panics)
				}
				if !logger.has("handler panicked") {
					t.Error("nothing was logged")
				}
			})
		})
	}
}

// A panic in Close of the handler, which comes last, affects nothing else.
func TestPanicInClose(t *testing.T) {
	f := newFixture(t, transports[0], line, session.Handler{}, nil)
	srv := session.NewServer(line, &session.Handler{Close: func(*session.Session, *session.CloseInfo) { panic("boom") }}, nil)
	client, server := net.Pipe()
	defer client.Close()
	s, err := srv.ServeConn(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return srv.Stats().Opened == 1 })
	s.Close()
	_ = srv.Close()
	if st := srv.Stats(); st.Panics != 1 || st.Sessions != 0 || st.Closed != 1 {
		t.Errorf("%+v", st)
	}
	write(t, f.client, "still here\n")
}

func TestOpenRefuses(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		no := errors.New("no")
		f := newFixture(t, tr, line, session.Handler{
			Open: func(s *session.Session) error { _ = s.Send([]byte("go away")); return no },
			Message: func(*session.Session, []byte) {
				t.Error("a message was handled")
			},
		}, nil)
		if got := expectEnd(t, f.client); got != "go away\n" {
			t.Errorf("received %q", got)
		}
		if info := receive(t, f.closed); info.By != session.ByRefusal || !errors.Is(info.Err, no) {
			t.Errorf("ended by %v, %v", info.By, info.Err)
		}
		f.s.Close()
		if st := f.srv.Stats(); st.Refused != 1 || st.Opened != 1 || st.Closed != 1 || len(f.closed) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// The last replies of the codec are written before the connection ends. The peer can read them although it has sent more input.
func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name string
		err  error
		by   session.By
	}{{"broken", codec.ErrTooLarge, session.ByError}, {"ended in order", io.EOF, session.ByPeer}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, nil, session.Handler{
					Open:    func(s *session.Session) error { s.SetCodec(&replyingCodec{fail: tt.err}); return nil },
					Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
				}, nil)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, _ = io.WriteString(f.client, "a\nping\nb\nbad\n"+strings.Repeat("more\n", 1000))
				}()
				if got, want := expectEnd(t, f.client), "a\npong\nb\nfailed\n"; got != want {
					t.Errorf("received %q, want %q", got, want)
				}
				_ = f.client.Close()
				receive(t, sent)
				if info := receive(t, f.closed); info.By != tt.by || !errors.Is(info.Err, tt.err) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
			})
		})
	}
}

// If the codec reports the end of a closing handshake that began on this side, the session ends without lingering.
func TestThePeerAnswersTheEnd(t *testing.T) {
	for _, first := range []string{"", "x"} { // without and with queued bytes
		over(t, func(t *testing.T, tr transport) {
			o := smallBuffers()
			o.Linger = limit
			f := newFixture(t, tr, nil, session.Handler{
				Open: func(s *session.Session) error { s.SetCodec(&replyingCodec{fail: io.EOF}); return nil },
			}, o)
			want := strings.Repeat(first, 50_000) + "goodbye\n"
			if err := f.s.Write([]byte(want[:len(want)-8])); err != nil {
				t.Fatal(err)
			}
			f.s.End([]byte("goodbye\n"), nil)
			sent := make(chan struct{})
			go func() { defer close(sent); _, _ = io.WriteString(f.client, "bad\n") }()
			if got := expectEnd(t, f.client); got != want {
				t.Errorf("received %d bytes, want %d", len(got), len(want))
			}
			receive(t, sent)
			if info := receive(t, f.closed); info.By != session.ByLocal || info.Undelivered != 0 {
				t.Errorf("ended by %v, %v, %d bytes undelivered", info.By, info.Err, info.Undelivered)
			}
		})
	}
}

// replyingCodec is the line codec with replies of its own.
type replyingCodec struct {
	codec.Line
	fail    error
	replies string
	over    bool
}

func (c *replyingCodec) Decode(in []byte) ([]byte, int, error) {
	if c.over {
		panic("called again after an error")
	}
	msg, n, err := c.Line.Decode(in)
	switch string(msg) {
	case "ping":
		c.replies += "pong\n"
		return nil, n, err
	case "bad":
		c.replies += "failed\n"
		c.over = true
		return nil, 0, c.fail
	default:
		return msg, n, err
	}
}

func (c *replyingCodec) AppendReplies(dst []byte) []byte {
	dst = append(dst, c.replies...)
	c.replies = ""
	return dst
}

// Frames that a handler sends before it ends the session arrive, as those of any other goroutine do (lesismal/nbio#347).
func TestSendThenClose(t *testing.T) {
	for name, end := range map[string]func(s *session.Session){
		"Close": (*session.Session).Close,
		"Abort": func(s *session.Session) { s.Abort(errors.New("on purpose")) },
		"panic": func(*session.Session) { panic("on purpose") },
		"exit":  func(*session.Session) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			overSome(t, func(tr transport) bool { return tr.direct }, func(t *testing.T, tr transport) {
				h := session.Handler{Message: func(s *session.Session, _ []byte) {
					if err := s.Send([]byte("last")); err != nil {
						t.Error(err)
					}
					end(s)
				}}
				f := newFixture(t, tr, line, h, nil)
				write(t, f.client, "hello\n")
				if got := expectEnd(t, f.client); got != "last\n" {
					t.Errorf("%q arrived", got)
				}
				if info := receive(t, f.closed); info.Undelivered != 0 {
					t.Errorf("%d bytes undelivered", info.Undelivered)
				}
			})
		})
	}
}
