package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport/udp"
)

// Every message comes back as a datagram of its own, to its sender.
func TestPacketEcho(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		var opened atomic.Int32
		h := echo()
		h.Open = func(*session.Session) error { opened.Add(1); return nil }
		f := servePackets(t, kind, &h, nil)
		for i := range 20 {
			conn := f.dial(t)
			for range 3 {
				write(t, conn, fmt.Sprintf("hello %d\nworld\n", i))
				expectPacket(t, conn, fmt.Sprintf("hello %d\n", i))
				expectPacket(t, conn, "world\n")
			}
		}
		if opened.Load() != 20 || f.srv.Len() != 20 {
			t.Errorf("%d sessions were opened, %d live", opened.Load(), f.srv.Len())
		}
		for s := range f.srv.Sessions() {
			if s.LocalAddr().String() != f.at.String() || s.RemoteAddr().Network() != "udp" || s.ID() == 0 {
				t.Errorf("session %d is between %v and %v", s.ID(), s.LocalAddr(), s.RemoteAddr())
			}
		}
		_ = f.srv.Close()
		if err := receive(t, f.served); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("ServePacket returned %v", err)
		}
		st := f.srv.Stats()
		if st.Opened != 20 || st.Closed != 20 || st.Messages != 120 || st.BadDatagrams != 0 || st.Drops != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// If a message cannot be decoded, the rest of its datagram is dropped and counted, and nothing else happens.
func TestPacketBad(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		var told atomic.Int32
		h := echo()
		f := servePackets(t, kind, &h, &session.Options{
			MaxMessage: 100, ReadBuffer: 8 << 10,
			Observer: &session.Observer{BadDatagram: func(s *session.Session, err error) {
				if s == nil || err == nil {
					t.Error("nobody, or nothing")
				}
				told.Add(1)
			}},
		})
		conn := f.dial(t)
		for _, bad := range []string{"incomplete", strings.Repeat("x", 200) + "\n", strings.Repeat("line\n", 2000)} {
			write(t, conn, bad)
		}
		write(t, conn, "good\nincomplete")
		expectPacket(t, conn, "good\n")
		write(t, conn, "") // an empty datagram only shows that the peer is alive
		write(t, conn, "still here\n")
		expectPacket(t, conn, "still here\n")
		await(t, func() bool { return f.srv.Stats().BadDatagrams == 4 })
		if told.Load() != 4 || f.srv.Stats().Opened != 1 {
			t.Errorf("%d were told, %+v", told.Load(), f.srv.Stats())
		}
	})
}

// A minute of silence ends a session. The next datagram makes a new one.
func TestPacketIdle(t *testing.T) {
	for _, idle := range []time.Duration{0, 10 * time.Second, -1} {
		t.Run(idle.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := make(chan error, 10)
				h := echo()
				h.Close = func(_ *session.Session, info *session.CloseInfo) { closed <- info.Err }
				w := newWire()
				srv := session.NewServer(line, &h, &session.Options{IdleTimeout: idle})
				go func() { _ = srv.ServePacket(w) }()
				defer srv.Close()
				for range 2 {
					for range 5 {
						w.deliver("a", "x\n")
						if p := <-w.sent; p != (wirePacket{"a", "x\n"}) {
							t.Errorf("%v", p)
						}
						<-time.After(9 * time.Second)
					}
					<-time.After(2 * time.Minute)
					if idle < 0 {
						continue
					}
					if err := <-closed; !errors.Is(err, session.ErrTimeout) {
						t.Errorf("%v", err)
					}
				}
				if st := srv.Stats(); idle < 0 && st.Opened != 1 || idle >= 0 && st.Opened != 2 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Ticks come although nothing is received.
func TestPacketTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		srv := session.NewServer(line, &session.Handler{Tick: func(s *session.Session) { _ = s.Send([]byte("tick")) }},
			&session.Options{TickInterval: time.Second})
		go func() { _ = srv.ServePacket(w) }()
		defer srv.Close()
		w.deliver("a", "x\n")
		began := time.Now()
		for range 5 {
			<-w.sent
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("five ticks took %v", took)
		}
	})
}

// Datagrams beyond the limits are refused and counted, but not each one is logged.
func TestPacketLimits(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		for _, perAddress := range []bool{false, true} {
			logger := new(recorder)
			o := &session.Options{MaxSessions: 2, Logger: logger.logger()}
			if perAddress {
				o = &session.Options{MaxSessionsPerAddress: 2, Logger: logger.logger()}
			}
			var told atomic.Int32
			o.Observer = &session.Observer{Refused: func(addr net.Addr, err error) {
				if addr == nil || !errors.Is(err, session.ErrLimit) {
					t.Errorf("%v was refused with %v", addr, err)
				}
				told.Add(1)
			}}
			h := echo()
			f := servePackets(t, kind, &h, o)
			for range 2 {
				conn := f.dial(t)
				write(t, conn, "x\n")
				expectPacket(t, conn, "x\n")
			}
			conn := f.dial(t)
			for range 50 {
				write(t, conn, "x\n")
			}
			await(t, func() bool { return f.srv.Stats().Refused == 50 })
			for s := range f.srv.Sessions() {
				s.Close()
				break
			}
			write(t, conn, "y\n")
			expectPacket(t, conn, "y\n")
			if told.Load() != 50 || strings.Count(logger.text(), "\n") > 3 {
				t.Errorf("%d were told; logged:\n%s", told.Load(), logger.text())
			}
		}
	})
}

// A dialed session sends and receives, with and without a handler.
func TestPacketDial(t *testing.T) {
	h := echo()
	f := servePackets(t, packetKinds[0], &h, nil)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()

	s, err := session.Dial(ctx, "udp", f.at.String(), line, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		want := fmt.Sprint("message ", i)
		if err := s.Send([]byte(want)); err != nil {
			t.Fatal(err)
		}
		if msg, err := s.Receive(ctx); err != nil || string(msg) != want {
			t.Fatalf("received %q, %v", msg, err)
		}
	}
	if s.Conn() == nil || s.RemoteAddr().String() != f.at.String() {
		t.Errorf("to %v", s.RemoteAddr())
	}
	s.Close()
	if _, err := s.Receive(ctx); !errors.Is(err, session.ErrClosed) {
		t.Errorf("received %v after Close", err)
	}

	received := make(chan string, 10)
	c := session.NewClient(line, &session.Handler{Message: func(_ *session.Session, msg []byte) { received <- string(msg) }}, nil)
	s, err = c.DialWith(ctx, "udp4", f.at.String(), &session.Attach{Initial: []byte("as if it had come\n"), Value: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, received); got != "as if it had come" || s.Value() != 7 {
		t.Errorf("received %q", got)
	}
	_ = s.Write([]byte("a\nb\n"))
	if a, b := receive(t, received), receive(t, received); a != "a" || b != "b" {
		t.Errorf("received %q, %q", a, b)
	}
	_ = c.Close()
	if _, err := c.Dial(ctx, "udp", f.at.String()); !errors.Is(err, session.ErrClientClosed) {
		t.Errorf("dialed %v after Close", err)
	}
}

// If no socket is bound to the peer's port, a dialed session ends.
func TestPacketRefused(t *testing.T) {
	pc := listenPlain(t)
	at := pc.LocalAddr().String()
	_ = pc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := session.Dial(ctx, "udp", at, line, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_ = s.Send([]byte("anybody"))
	if _, err := s.Receive(ctx); !errors.Is(err, session.ErrClosed) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("received %v", err)
	}
}

// A datagram that is too large is an error of that call only.
func TestPacketTooLarge(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		errs := make(chan error, 10)
		f := servePackets(t, kind, &session.Handler{Message: func(s *session.Session, _ []byte) {
			errs <- s.Send(make([]byte, 65_507))
			errs <- s.Write(make([]byte, 65_508))
			_, err := s.TryWrite([][]byte{make([]byte, 70_000)})
			errs <- err
			errs <- s.WriteLarge(make([]byte, 70_000))
			errs <- s.WriteShared(bytes.Repeat([]byte{1}, 65_507))
		}}, &session.Options{MaxMessage: 1 << 20})
		conn := f.dial(t)
		write(t, conn, "x\n")
		for range 4 {
			if err := receive(t, errs); !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("%v", err)
			}
		}
		if err := receive(t, errs); err != nil {
			t.Error(err)
		}
		expectPacket(t, conn, strings.Repeat("\x01", 65_507))
	})
}

// A handler may panic or end its goroutine: its session ends with it, and the socket goes on.
func TestPacketPanics(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		for _, where := range []string{"open", "message", "tick", "close"} {
			t.Run("panic in "+where, func(t *testing.T) { testPacketPanics(t, kind, where, func() { panic("ours") }) })
			t.Run("exit in "+where, func(t *testing.T) { testPacketPanics(t, kind, where, runtime.Goexit) })
		}
	})
}

func testPacketPanics(t *testing.T, kind packetKind, where string, fall func()) {
	closed := make(chan *session.CloseInfo, 10)
	here := func(s *session.Session, name string) {
		if s.ID() == 1 && name == where {
			fall()
		}
	}
	f := servePackets(t, kind, &session.Handler{
		Open: func(s *session.Session) error { here(s, "open"); return nil },
		Message: func(s *session.Session, msg []byte) {
			here(s, "message")
			if s.ID() == 1 && where == "close" {
				s.Abort(nil)
			}
			_ = s.Send(msg)
		},
		Tick: func(s *session.Session) { here(s, "tick") },
		Close: func(s *session.Session, info *session.CloseInfo) {
			closed <- info
			here(s, "close")
		},
	}, &session.Options{TickInterval: time.Millisecond})
	conn, other := f.dial(t), f.dial(t)
	write(t, conn, "x\n")
	if info := receive(t, closed); where != "close" && info.By != session.ByPanic {
		t.Errorf("closed %+v", info)
	}
	await(t, func() bool { return f.srv.Len() == 0 })
	if where == "tick" {
		expectPacket(t, conn, "x\n")
	}
	// The next datagram makes a new session, as soon as the old one has been removed.
	for lost := f.srv.Stats().LostDatagrams; f.srv.Stats().Opened < 2; lost = f.srv.Stats().LostDatagrams {
		write(t, conn, "y\n")
		await(t, func() bool { st := f.srv.Stats(); return st.Opened == 2 || st.LostDatagrams > lost })
	}
	expectPacket(t, conn, "y\n")
	write(t, other, "z\n")
	expectPacket(t, other, "z\n")
	_ = f.srv.Close()
	_ = receive(t, f.served)
	if st := f.srv.Stats(); st.Opened != 3 || st.Closed != 3 || st.Panics != 1 {
		t.Errorf("%+v", st)
	}
}

// The ways to end a session. The peer gets no notice of the end.
func TestPacketEnd(t *testing.T) {
	overPackets(t, func(t *testing.T, kind packetKind) {
		closed := make(chan *session.CloseInfo, 1)
		f := servePackets(t, kind, &session.Handler{
			Open: func(s *session.Session) error { return nil },
			Message: func(s *session.Session, msg []byte) {
				switch string(msg) {
				case "end":
					_ = s.Send([]byte("first"))
					s.End([]byte("last\n"), errOurs)
					if err := s.Send(msg); !errors.Is(err, session.ErrClosed) || !errors.Is(err, errOurs) {
						t.Errorf("sent after End: %v", err)
					}
				case "goodbye":
					s.EndWait([]byte("last\n"), errOurs)
				case "abort":
					s.Abort(errOurs)
				case "close":
					s.Close()
				case "wait":
				}
			},
			Drain: func(s *session.Session) { s.End([]byte("bye\n"), errOurs) },
			Close: func(_ *session.Session, info *session.CloseInfo) { closed <- info },
		}, nil)
		for _, how := range []string{"end", "goodbye", "abort", "close"} {
			conn := f.dial(t)
			write(t, conn, how+"\nwait\n")
			if how == "end" {
				expectPacket(t, conn, "first\n")
			}
			if how == "end" || how == "goodbye" {
				expectPacket(t, conn, "last\n")
			}
			if info := receive(t, closed); info.By != session.ByLocal || how != "close" && !errors.Is(info.Err, errOurs) {
				t.Errorf("%s: %+v", how, info)
			}
		}
		conn := f.dial(t)
		write(t, conn, "wait\n")
		await(t, func() bool { return f.srv.Stats().Messages >= 5 })
		if err := f.srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		expectPacket(t, conn, "bye\n")
		receive(t, closed)
		_ = receive(t, f.served)
		if got, want := f.srv.Stats().BytesOut, uint64(len("first\nlast\nlast\nbye\n")); got != want {
			t.Errorf("%d bytes were counted, %d were sent", got, want)
		}
	})
}

// eofCodec is a codec with a message that ends the session.
type eofCodec struct{ session.Codec }

func (c eofCodec) Decode(in []byte) ([]byte, int, error) {
	if string(in) == "bye\n" {
		return nil, 0, io.EOF
	}
	return c.Codec.Decode(in)
}

// A codec that returns io.EOF ends the session in order.
func TestPacketEOF(t *testing.T) {
	closed := make(chan *session.CloseInfo, 1)
	srv := session.NewServer(eofCodec{line}, &session.Handler{Close: func(_ *session.Session, info *session.CloseInfo) { closed <- info }}, nil)
	pc := listenBatches(t)
	served := make(chan error, 1)
	go func() { served <- srv.ServePacket(pc) }()
	defer srv.Close()
	conn := (&packetFixture{at: pc.LocalAddr()}).dial(t)
	write(t, conn, "bye\n")
	if info := receive(t, closed); info.By != session.ByPeer || !errors.Is(info.Err, io.EOF) {
		t.Errorf("%+v", info)
	}
}

// If a socket is closed by other code, its sessions and ServePacket end.
func TestPacketSocketClosed(t *testing.T) {
	closed := make(chan *session.CloseInfo, 1)
	h := echo()
	h.Close = func(_ *session.Session, info *session.CloseInfo) { closed <- info }
	srv := session.NewServer(line, &h, nil)
	defer srv.Close()
	pc := listenBatches(t)
	served := make(chan error, 1)
	go func() { served <- srv.ServePacket(pc) }()
	conn := (&packetFixture{at: pc.LocalAddr()}).dial(t)
	write(t, conn, "x\n")
	expectPacket(t, conn, "x\n")
	_ = pc.(*udp.Conn).Close()
	if info := receive(t, closed); info.By != session.ByError || !errors.Is(info.Err, net.ErrClosed) {
		t.Errorf("%+v", info)
	}
	if err := receive(t, served); !errors.Is(err, net.ErrClosed) || errors.Is(err, session.ErrServerClosed) {
		t.Errorf("ServePacket returned %v", err)
	}
}
