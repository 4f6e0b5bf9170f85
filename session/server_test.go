package session_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
)

// scriptedListener returns the given errors first, and then blocks until it is closed.
type scriptedListener struct {
	errs   []error
	asked  chan struct{}
	closed chan struct{}
}

func newScripted(errs ...error) *scriptedListener {
	return &scriptedListener{errs: errs, asked: make(chan struct{}, 100), closed: make(chan struct{})}
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	l.asked <- struct{}{}
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *scriptedListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}
func (l *scriptedListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptErrors(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	broken := errors.New("broken")

	t.Run("temporary", func(t *testing.T) {
		logger := new(recorder)
		srv := session.NewServer(line, nil, &session.Options{Logger: logger.logger()})
		ln := newScripted(full, full, full)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		for range 4 {
			receive(t, ln.asked)
		}
		_ = srv.Close()
		if err := receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
		if !logger.has("accept failed") {
			t.Error("nothing was logged")
		}
	})
	t.Run("closed during the pause", func(t *testing.T) {
		srv := session.NewServer(line, nil, nil)
		errs := make([]error, 1000)
		for i := range errs {
			errs[i] = full
		}
		ln := newScripted(errs...)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		for range 3 {
			receive(t, ln.asked)
		}
		_ = srv.Close()
		if err := receive(t, served); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Run("final", func(t *testing.T) {
		srv := session.NewServer(line, nil, nil)
		ln := newScripted(broken)
		if err := srv.Serve(ln); !errors.Is(err, broken) {
			t.Errorf("Serve returned %v", err)
		}
		receive(t, ln.closed)
		_ = srv.Close()
	})
	t.Run("after Close", func(t *testing.T) {
		srv := session.NewServer(line, nil, nil)
		_ = srv.Close()
		ln := newScripted()
		if err := srv.Serve(ln); !errors.Is(err, session.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
		receive(t, ln.closed)
	})
}

func TestLimits(t *testing.T) {
	hasAddress := func(tr transport) bool {
		return strings.HasPrefix(tr.name, "tcp") || strings.HasPrefix(tr.name, "tls") || tr.name == "wrapped"
	}
	overSome(t, hasAddress, testLimits)
}

func testLimits(t *testing.T, tr transport) {
	tests := map[string]session.Options{
		"sessions":    {MaxSessions: 2},
		"per address": {MaxSessionsPerAddress: 2},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tr, line, echo(), &o)
			second := f.dial()
			write(t, second, "hello\n")
			expect(t, second, "hello\n")
			if refused, err := f.tryDial(); err == nil { // over TLS the refusal shows in the handshake
				if got := expectEnd(t, refused); got != "" {
					t.Errorf("received %q", got)
				}
			}
			if st := f.srv.Stats(); st.Refused != 1 || st.Sessions != 2 || st.Opened != 2 {
				t.Errorf("%+v", st)
			}
			client, server := net.Pipe() // this connection has no address
			defer client.Close()
			_, err := f.srv.ServeConn(server, nil)
			if refused := errors.Is(err, session.ErrLimit); refused != (name == "sessions") {
				t.Errorf("error %v", err)
			}
			_ = second.Close()
			await(t, func() bool { return f.srv.Stats().Closed == 1 && f.srv.Len() < 3 })
			if name == "per address" {
				again := f.dial()
				write(t, again, "hello\n")
				expect(t, again, "hello\n")
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	const short = 30 * time.Millisecond
	tests := []struct {
		name string
		o    session.Options
		say  string
	}{
		{"handshake", session.Options{HandshakeTimeout: short}, ""},
		{"handshake begun", session.Options{HandshakeTimeout: short}, "hel"},
		{"first message", session.Options{FirstTimeout: short}, ""},
		{"first message begun", session.Options{FirstTimeout: short, HandshakeTimeout: -1}, "hel"},
		{"idle", session.Options{IdleTimeout: short}, "hello\n"},
		{"idle, nothing said", session.Options{IdleTimeout: short, FirstTimeout: -1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// A TLS handshake takes a while itself: see below.
			overSome(t, func(tr transport) bool { return !strings.HasPrefix(tr.name, "tls") }, func(t *testing.T, tr transport) {
				o := tt.o
				f := newFixture(t, tr, line, session.Handler{}, &o)
				write(t, f.client, tt.say)
				if info := receive(t, f.closed); info.By != session.ByTimeout || !errors.Is(info.Err, session.ErrTimeout) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
			})
		})
	}
}

// A session whose peer sends something now and then is not idle, although bytes that arrive move no timer.
func TestNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		ended := make(chan time.Time, 1)
		srv := session.NewServer(line, &session.Handler{
			Close: func(_ *session.Session, info *session.CloseInfo) {
				ended <- time.Now()
				if info.By != session.ByTimeout || !errors.Is(info.Err, session.ErrTimeout) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
			},
		}, &session.Options{IdleTimeout: idle, HandshakeTimeout: -1})
		client, server := net.Pipe()
		s, err := srv.ServeConn(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		for _, pause := range []time.Duration{idle / 2, idle - 1, 1, idle - 1, idle - 1} {
			<-time.After(pause)
			write(t, client, "hello\n")
			last = time.Now()
		}
		synctest.Wait()
		<-time.After(idle - 1)
		synctest.Wait()
		if len(ended) > 0 {
			t.Errorf("ended after less than %v of silence", idle)
		}
		expectEnd(t, client)
		s.Close()
		if silence := (<-ended).Sub(last); silence != idle {
			t.Errorf("ended after %v of silence", silence)
		}
		_ = srv.Close()
	})
}

// A peer that does not take part in the TLS handshake is disconnected, and Open of its session is never called.
func TestTLSHandshakeTimeout(t *testing.T) {
	srv := session.NewServer(line, &session.Handler{
		Open:  func(*session.Session) error { t.Error("Open was called"); return nil },
		Close: func(*session.Session, *session.CloseInfo) { t.Error("Close was called") },
	}, &session.Options{HandshakeTimeout: 20 * time.Millisecond})
	defer srv.Close()
	client, server := net.Pipe()
	defer client.Close()
	s, err := srv.ServeConn(tls.Server(server, serverTLS()), nil)
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return srv.Len() == 0 })
	s.Close()
	if st := srv.Stats(); st.Refused != 1 || st.Opened != 0 || st.Closed != 0 {
		t.Errorf("%+v", st)
	}
}

func TestOpenSeesTLS(t *testing.T) {
	version := make(chan uint16, 1)
	newFixture(t, transportOf(t, "tls"), line, session.Handler{Open: func(s *session.Session) error {
		version <- s.Conn().(*tls.Conn).ConnectionState().Version
		return nil
	}}, nil)
	if v := receive(t, version); v != tls.VersionTLS13 {
		t.Errorf("version %x", v)
	}
}

// A connection that was upgraded elsewhere brings its codec, handler, value, and bytes that were read already.
func TestServeConn(t *testing.T) {
	srv := session.NewServer(line, &session.Handler{
		Message: func(*session.Session, []byte) { t.Error("the server's handler was called") },
	}, &session.Options{HandshakeTimeout: 10 * time.Millisecond})
	defer srv.Close()
	got := make(chan string, 10)
	h := &session.Handler{Message: func(s *session.Session, msg []byte) { got <- s.Value().(string) + string(msg) }}
	initial := []byte("\x03one\x03two\x05th")
	client, server := net.Pipe()
	defer client.Close()
	s, err := srv.ServeConn(server, &session.Attach{Codec: codec.Length{Bytes: 1}, Handler: h, Initial: initial, Value: "got "})
	if err != nil {
		t.Fatal(err)
	}
	clear(initial)
	for _, want := range []string{"got one", "got two"} {
		if msg := receive(t, got); msg != want {
			t.Errorf("%q, want %q", msg, want)
		}
	}
	write(t, client, "ree")
	if msg := receive(t, got); msg != "got three" {
		t.Errorf("%q", msg)
	}
	if s.ID() == 0 || s.RemoteAddr() == nil || s.LocalAddr() == nil || srv.Len() != 1 {
		t.Errorf("id %d, addresses %v, %v", s.ID(), s.RemoteAddr(), s.LocalAddr())
	}

	_, second := net.Pipe()
	if _, err := srv.ServeConn(second, &session.Attach{Initial: make([]byte, 100_000)}); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	if _, err := second.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the refused connection is open: %v", err)
	}
}

func TestNoCodec(t *testing.T) {
	f := newFixture(t, transports[0], nil, session.Handler{}, nil)
	if err := f.s.Send(nil); !errors.Is(err, session.ErrNoCodec) {
		t.Errorf("error %v", err)
	}
	write(t, f.client, "hello")
	_ = f.client.Close()
	if info := receive(t, f.closed); info.By != session.ByError || !errors.Is(info.Err, session.ErrNoCodec) {
		t.Errorf("ended by %v, %v", info.By, info.Err)
	}
}

// The same messages arrive at whatever byte the stream is split, with each codec.
func TestSplitAtEveryByte(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		h := session.Handler{Message: func(s *session.Session, msg []byte) {
			if string(msg) == "switch" {
				s.SetCodec(codec.Length{Bytes: 2})
			}
			_ = s.Send(msg)
		}}
		in := "one\n\ntwo\r\nswitch\n\x00\x05three\x00\x00\x00\x04four"
		out := "one\n\ntwo\n\x00\x06switch\x00\x05three\x00\x00\x00\x04four"
		f := newFixture(t, tr, line, h, nil)
		for cut := range len(in) + 1 {
			c := f.dial()
			got := make(chan []byte, 1)
			go func() {
				buf := make([]byte, len(out))
				n, _ := io.ReadFull(c, buf)
				got <- buf[:n]
			}()
			await(t, func() bool { return f.srv.Stats().Opened == uint64(cut)+2 })
			write(t, c, in[:cut])
			await(t, func() bool { return f.srv.Stats().BytesIn == uint64(cut*len(in)+cut) })
			write(t, c, in[cut:])
			if msg := receive(t, got); string(msg) != out {
				t.Fatalf("cut at %d: received %q, want %q", cut, msg, out)
			}
			await(t, func() bool { return f.srv.Stats().BytesIn == uint64((cut+1)*len(in)) })
		}
		c := f.dial()
		go func() {
			for i := range len(in) {
				_, _ = c.Write([]byte{in[i]})
			}
		}()
		expect(t, c, out)
	})
}

// The size that a peer declares is not allocated, and messages are bounded.
func TestLargeMessages(t *testing.T) {
	tests := []struct {
		name  string
		codec session.Codec
		in    string
		err   error
	}{
		{"line without end", codec.Line{Max: -1}, strings.Repeat("x", 70_000), session.ErrTooLarge},
		{"declared", codec.Length{Max: 1 << 30}, "\x3f\xff\xff\xff", session.ErrTooLarge},
		{"declared beyond int", codec.Length{Bytes: 8, Max: -1}, "\x7f\xff\xff\xff\xff\xff\xff\x00", nil}, // on 32-bit machines the codec refuses it
		{"whole", codec.Line{Max: -1}, strings.Repeat("x", 40_001) + "\n", session.ErrTooLarge},
		{"codec that lies", lyingCodec{}, "x", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over(t, func(t *testing.T, tr transport) {
				f := newFixture(t, tr, tt.codec, session.Handler{}, &session.Options{MaxMessage: 40_000, Linger: -1})
				go func() { _, _ = io.WriteString(f.client, tt.in) }()
				info := receive(t, f.closed)
				if info.By != session.ByError || tt.err != nil && !errors.Is(info.Err, tt.err) {
					t.Errorf("ended by %v, %v", info.By, info.Err)
				}
			})
		})
	}
	over(t, func(t *testing.T, tr transport) {
		var size atomic.Int64
		f := newFixture(t, tr, codec.Length{Max: -1}, session.Handler{Message: func(s *session.Session, msg []byte) {
			size.Store(int64(len(msg)))
			_ = s.Send(msg)
		}}, &session.Options{MaxMessage: 3 << 20})
		msg := bytes.Repeat([]byte("0123456789"), 300_000)
		frame, err := codec.Length{Max: -1}.AppendEncode(nil, msg)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			go func() { _, _ = f.client.Write(frame) }()
			expect(t, f.client, string(frame))
		}
	})
}

// lyingCodec returns that it used more bytes than there are.
type lyingCodec struct{ codec.Line }

func (lyingCodec) Decode(in []byte) ([]byte, int, error) { return nil, len(in) + 1, nil }

// Replies of a codec wait for room under every policy, and the session does not read meanwhile.
func TestRepliesWaitForRoom(t *testing.T) {
	over(t, func(t *testing.T, tr transport) {
		o := smallBuffers()
		o.Policy = session.CloseSlow
		f := newFixture(t, tr, nil, session.Handler{
			Open: func(s *session.Session) error { s.SetCodec(&replyingCodec{}); return nil },
		}, o)
		const pings = 50_000
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(f.client, strings.Repeat("ping\n", pings))
			wrote <- err
		}()
		await(t, func() bool { return f.s.IsOverloaded() || f.srv.Stats().BytesIn == 5*pings })
		if n := f.s.Queued(); n > 64<<10 {
			t.Errorf("%d bytes are waiting", n)
		}
		got := make([]byte, 5*pings)
		if n, err := io.ReadFull(f.client, got); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := receive(t, wrote); err != nil {
			t.Error(err)
		}
	})
}

func TestNames(t *testing.T) {
	for by := session.ByLocal; by <= session.BySlow; by++ {
		if name := by.String(); name == "" || strings.Contains(name, "(") {
			t.Errorf("%d is called %q", by, name)
		}
	}
	if name := session.By(0).String(); name != "by(0)" {
		t.Errorf("0 is called %q", name)
	}
	err := &session.PanicError{Value: "boom"}
	if err.Error() != "session: panic: boom" {
		t.Errorf("%v", err)
	}
}

func TestMaxSessionsOverUnix(t *testing.T) {
	overSome(t, func(tr transport) bool { return strings.HasPrefix(tr.name, "unix") }, func(t *testing.T, tr transport) {
		f := newFixture(t, tr, line, echo(), &session.Options{MaxSessions: 1, MaxSessionsPerAddress: 1})
		if got := expectEnd(t, f.dial()); got != "" || f.srv.Stats().Refused != 1 {
			t.Errorf("received %q, %+v", got, f.srv.Stats())
		}
	})
}
