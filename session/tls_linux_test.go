package session_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/session"
)

// insecure returns the configuration of the clients.
func insecure() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate is not what is tested
}

// overTLSLoop returns a fixture, and a function that dials a client whose TLS the test does itself.
func overTLSLoop(t *testing.T, h session.Handler, o *session.Options) (f *fixture, dial func() net.Conn) {
	t.Helper()
	var addr string
	tr := transport{"tls loop", session.EngineLoop, true, true, func(t testing.TB, srv *session.Server) func() (net.Conn, error) {
		session.SetTLS(srv, serverTLS())
		addr = serve(t, srv, listen(t, "tcp", "127.0.0.1:0"))
		return overTLS(addr)
	}}
	f = newFixture(t, tr, line, h, o)
	return f, func() net.Conn { return dialTCP(t, addr) }
}

// If the test of crypto/tls succeeds, sessions are on a loop. Otherwise they have goroutines, and the log says so once.
func TestTLSMovesToALoop(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		engine session.Engine
		loop   bool
	}{
		{"works", nil, session.EngineAuto, true},
		{"does not work", errors.New("it is another Go"), session.EngineAuto, false},
		{"goroutine", nil, session.EngineGoroutine, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log recorder
			h, sessions := opened(2)
			srv := session.NewServer(line, &h, &session.Options{Engine: tt.engine, TLS: serverTLS(), Logger: log.logger()})
			if tt.err != nil {
				session.FailTLS(srv, tt.err)
			}
			dial := overTLS(serve(t, srv, listen(t, "tcp", "127.0.0.1:0")))
			for range 2 {
				c, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				write(t, c, "hello\n")
				expect(t, c, "hello\n")
				if s := receive(t, sessions); session.OnLoop(s) != tt.loop {
					t.Errorf("on a loop: %v", !tt.loop)
				}
			}
			if n := strings.Count(log.text(), "it is another Go"); n > 1 || (n == 1) != (tt.err != nil) {
				t.Errorf("logged %d times", n)
			}
		})
	}
}

// Conn returns the same as for a goroutine: the state of TLS, and the socket.
func TestTLSLoopConn(t *testing.T) {
	f, _ := overTLSLoop(t, echo(), nil)
	c := f.s.Conn().(*tls.Conn)
	if v := c.ConnectionState().Version; v != tls.VersionTLS13 {
		t.Errorf("version %x", v)
	}
	if c.RemoteAddr().String() != f.client.LocalAddr().String() || c.LocalAddr().String() != f.client.RemoteAddr().String() {
		t.Errorf("from %v to %v", c.RemoteAddr(), c.LocalAddr())
	}
	under, ok := c.NetConn().(interface{ NetConn() net.Conn })
	if !ok {
		t.Fatalf("%T", c.NetConn())
	}
	if _, ok := under.NetConn().(*net.TCPConn); !ok {
		t.Errorf("%T", under.NetConn())
	}
	write(t, f.client, "hello\n")
	expect(t, f.client, "hello\n")
}

// Both versions of TLS, Unix sockets, and bytes that the client sends together with the end of its handshake.
func TestTLSLoopKinds(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(network+" "+tls.VersionName(version), func(t *testing.T) {
				h, sessions := opened(1)
				srv := session.NewServer(line, &h, &session.Options{TLS: serverTLS()})
				addr := "127.0.0.1:0"
				if network == "unix" {
					dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // t.TempDir may be too long for a socket
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = os.RemoveAll(dir) })
					addr = dir + "/s"
				}
				conn, err := net.Dial(network, serve(t, srv, listen(t, network, addr)))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(limit))
				config := insecure()
				config.MinVersion, config.MaxVersion = version, version
				c := tls.Client(&delayedConn{Conn: conn}, config)
				long := strings.Repeat(strings.Repeat("x", 50<<10)+"\n", 3)
				write(t, c, "hello\n"+long)
				expect(t, c, "hello\n"+long)
				if !session.OnLoop(receive(t, sessions)) {
					t.Error("not on a loop")
				}
			})
		}
	}
}

// delayedConn delays writes until the next read, so that the end of a handshake leaves together with the bytes behind it.
type delayedConn struct {
	net.Conn
	held []byte
}

func (c *delayedConn) Write(p []byte) (int, error) {
	c.held = append(c.held, p...)
	return len(p), nil
}

func (c *delayedConn) Read(p []byte) (int, error) {
	if len(c.held) > 0 {
		if _, err := c.Conn.Write(c.held); err != nil {
			return 0, err
		}
		c.held = nil
	}
	return c.Conn.Read(p)
}

// A peer may change its keys at any time and ask for the same, in records split anywhere. The answer needs no frame from the session.
func TestTLSLoopKeyUpdate(t *testing.T) {
	_, dial := overTLSLoop(t, echo(), nil)
	p := newTLSPeer(t, dial())
	application := func(data string) []byte { return p.seal(recordApplication, []byte(data)) }
	all := append(application("one\ntw"), p.updateKeys(5)...)
	all = append(all, application("o\n")...)
	all = append(all, p.updateKeys(2)...)
	all = append(all, p.updateKeys(1)...)
	for i := range all {
		write(t, p.conn, string(all[i:i+1]))
	}
	updates, got := 0, ""
	for updates < 3 || got != "one\ntwo\n" {
		switch typ, data, err := p.open(); {
		case err != nil:
			t.Fatalf("%v after %d updates and %q", err, updates, got)
		case typ == recordHandshake && data[0] == keyUpdate:
			updates++
		case typ == recordApplication:
			got += string(data)
		}
	}
	write(t, p.conn, string(application("three\n")))
	if typ, data, err := p.open(); typ != recordApplication || string(data) != "three\n" || err != nil {
		t.Errorf("received %d, %q, %v", typ, data, err)
	}
}

// A peer that asks for answers and does not read them is disconnected before they take much memory.
func TestTLSLoopFlood(t *testing.T) {
	o := smallBuffers()
	o.WriteTimeout = -1
	f, dial := overTLSLoop(t, session.Handler{}, o)
	conn := dial()
	_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10) // with a few KiB the kernel drops acknowledgements together with data, and both sides wait
	p := newTLSPeer(t, conn)
	for {
		if _, err := conn.Write(append(p.updateKeys(5), p.seal(recordApplication, []byte("\n"))...)); err != nil {
			break
		}
	}
	if info := receive(t, f.closed); info.By != session.ByError || !strings.Contains(info.Err.Error(), "answers") {
		t.Errorf("ended by %v: %v", info.By, info.Err)
	}
}

// The types of an alert, and the alert that is no error: RFC 8446 section 6.
const (
	recordAlert = 21
	closeNotify = 0
)

// alertOf reads records until an alert comes. It returns the data before the alert, and the alert.
func alertOf(t *testing.T, p *tlsPeer) (data string, alert []byte) {
	t.Helper()
	for {
		typ, d, err := p.open()
		switch {
		case err != nil:
			t.Fatalf("%d bytes, then %v", len(data), err)
		case typ == recordAlert:
			return data, d
		case typ == recordApplication:
			data += string(d)
		}
	}
}

// Whichever side ends the connection, the other one gets a closing alert. A peer that violates TLS gets an alert with the error.
func TestTLSLoopSendsCloseAlert(t *testing.T) {
	broken := func(t *testing.T, p *tlsPeer) {
		record := p.seal(recordApplication, []byte("hello\n"))
		record[len(record)-1] ^= 1
		write(t, p.conn, string(record))
	}
	tests := map[string]struct {
		end  func(t *testing.T, s *session.Session, p *tlsPeer)
		data string
		ok   bool
	}{
		"abort":  {func(_ *testing.T, s *session.Session, _ *tlsPeer) { s.Abort(nil) }, "", true},
		"end":    {func(_ *testing.T, s *session.Session, _ *tlsPeer) { s.End([]byte("bye\n"), nil) }, "bye\n", true},
		"broken": {func(t *testing.T, _ *session.Session, p *tlsPeer) { broken(t, p) }, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, sessions := opened(2)
			_, dial := overTLSLoop(t, h, &session.Options{Linger: time.Millisecond})
			receive(t, sessions)
			p := newTLSPeer(t, dial())
			tt.end(t, receive(t, sessions), p)
			data, alert := alertOf(t, p)
			if data != tt.data || (alert[1] == closeNotify) != tt.ok {
				t.Errorf("data %q, then alert %v", data, alert)
			}
		})
	}
}

// When a session ends, bytes that found no room in the socket, and a record of them inside TLS, are still delivered, and then the end.
func TestTLSLoopEndsWhenFull(t *testing.T) {
	h, sessions := opened(2)
	o := smallBuffers()
	o.Linger = time.Minute
	_, dial := overTLSLoop(t, h, o)
	receive(t, sessions)
	p := newTLSPeer(t, dial())
	s := receive(t, sessions)
	frame := []byte(strings.Repeat("x", 1000))
	sent := 0
	for taken := 1; taken == 1; sent += taken * len(frame) {
		var err error
		if taken, err = s.TryWrite([][]byte{frame}); err != nil {
			t.Fatal(err)
		}
	}
	s.End([]byte("bye\n"), nil)
	data, alert := alertOf(t, p)
	if len(data) != sent+4 || !strings.HasSuffix(data, "xbye\n") || alert[1] != closeNotify {
		t.Errorf("%d bytes of %d, alert %v", len(data), sent, alert)
	}
}

// A session that ends during its handshake leaves nothing behind, and its end does not wait for the peer.
func TestTLSLoopEndsInTheHandshake(t *testing.T) {
	ends := map[string]func(srv *session.Server, c net.Conn){
		"abort": func(srv *session.Server, _ net.Conn) {
			for s := range srv.Sessions() {
				s.Abort(nil)
			}
		},
		"end": func(srv *session.Server, _ net.Conn) {
			for s := range srv.Sessions() {
				_ = s.Write([]byte("early\n"))
				s.End(nil, nil)
				s.Abort(nil)
			}
		},
		"server":   func(srv *session.Server, _ net.Conn) { _ = srv.Close() },
		"peer":     func(_ *session.Server, c net.Conn) { _ = c.Close() },
		"nonsense": func(_ *session.Server, c net.Conn) { _, _ = c.Write([]byte("this is no TLS\n")) },
		"time":     func(*session.Server, net.Conn) {},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			h, _ := opened(1)
			h.Close = func(*session.Session, *session.CloseInfo) { t.Error("Close was called without Open") }
			o := &session.Options{TLS: serverTLS()}
			if name == "time" {
				o.HandshakeTimeout = time.Millisecond
			}
			srv := session.NewServer(line, &h, o)
			c := dialTCP(t, serve(t, srv, listen(t, "tcp", "127.0.0.1:0")))
			await(t, func() bool { return srv.Len() == 1 || srv.Stats().Refused == 1 })
			end(srv, c)
			await(t, func() bool { return srv.Len() == 0 })
			if st := srv.Stats(); st.Opened != 0 || st.Closed != 0 || st.Refused != 1 {
				t.Errorf("%+v", st)
			}
			_ = expectEnd(t, c)
		})
	}
}

// Frames that are sent before the handshake is done leave after it.
func TestTLSLoopEarlySend(t *testing.T) {
	h, _ := opened(1)
	srv := session.NewServer(line, &h, &session.Options{TLS: serverTLS()})
	conn := dialTCP(t, serve(t, srv, listen(t, "tcp", "127.0.0.1:0")))
	await(t, func() bool { return srv.Len() == 1 })
	for s := range srv.Sessions() {
		if err := s.Write([]byte("early\n")); err != nil {
			t.Error(err)
		}
		if taken, err := s.TryWrite([][]byte{[]byte("never\n")}); taken != 0 || err != nil {
			t.Errorf("taken %d, %v", taken, err)
		}
	}
	c := tls.Client(conn, insecure())
	expect(t, c, "early\n")
	write(t, c, "hello\n")
	expect(t, c, "hello\n")
}

// A connection that was accepted elsewhere gets TLS as well, from its first byte on, unless it speaks TLS already.
func TestTLSServeConn(t *testing.T) {
	client := func(t *testing.T, conn net.Conn) {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(limit))
		c := tls.Client(conn, insecure())
		write(t, c, "hello\n")
		expect(t, c, "hello\n")
	}
	kinds := map[string]struct {
		loop bool
		give func(t *testing.T, srv *session.Server, conn net.Conn) (*session.Session, error)
	}{
		"plain": {true, func(_ *testing.T, srv *session.Server, conn net.Conn) (*session.Session, error) {
			return srv.ServeConn(conn, &session.Attach{Value: 1})
		}},
		"initial": {false, func(t *testing.T, srv *session.Server, conn net.Conn) (*session.Session, error) {
			initial := make([]byte, 3)
			if _, err := io.ReadFull(conn, initial); err != nil {
				t.Error(err)
			}
			return srv.ServeConn(conn, &session.Attach{Initial: initial})
		}},
		"secure": {false, func(_ *testing.T, srv *session.Server, conn net.Conn) (*session.Session, error) {
			return srv.ServeConn(tls.Server(conn, serverTLS()), nil)
		}},
		"wrapped": {false, func(_ *testing.T, srv *session.Server, conn net.Conn) (*session.Session, error) {
			return srv.ServeConn(struct{ net.Conn }{conn}, nil)
		}},
	}
	for name, tt := range kinds {
		t.Run(name, func(t *testing.T) {
			h := echo()
			srv := session.NewServer(line, &h, &session.Options{TLS: serverTLS()})
			defer srv.Close()
			ln := listen(t, "tcp", "127.0.0.1:0")
			defer ln.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				s, err := tt.give(t, srv, conn)
				if err != nil {
					t.Error(err)
				} else if session.OnLoop(s) != tt.loop {
					t.Errorf("on a loop: %v", !tt.loop)
				}
			}()
			client(t, dialTCP(t, ln.Addr().String()))
			receive(t, done)
		})
	}
}

// Bytes that the connection has taken but could not send are sent when there is room, although no other frames are sent.
func TestTLSLoopSendsTheRest(t *testing.T) {
	h, sessions := opened(2)
	_, dial := overTLSLoop(t, h, smallBuffers())
	receive(t, sessions)
	p := newTLSPeer(t, dial())
	s := receive(t, sessions)
	sent := 0
	for frame := make([]byte, 10_000); !session.HasPending(s); sent += len(frame) {
		if err := s.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < sent; {
		typ, data, err := p.open()
		if err != nil {
			t.Fatalf("%d bytes of %d, then %v", got, sent, err)
		}
		if typ == recordApplication {
			got += len(data)
		}
	}
	await(t, func() bool { return !s.HasQueueOrWriter() })
}

// If there is no room for the closing alert, it is sent later, and then the peer has Linger to end its side.
func TestAnEndThatIsHeld(t *testing.T) {
	overSome(t, func(tr transport) bool { return tr.engine == session.EngineLoop }, func(t *testing.T, tr transport) {
		ends := make(chan *atomic.Int64, 1)
		f := newFixture(t, tr, line, session.Handler{
			Open: func(s *session.Session) error { ends <- session.HoldEnd(s); return nil },
		}, &session.Options{Linger: time.Minute, HandshakeTimeout: -1})
		f.s.End([]byte("bye\n"), nil)
		if rest := expectEnd(t, f.client); rest != "bye\n" {
			t.Errorf("received %q", rest)
		}
		if n := receive(t, ends).Load(); n != 2 || f.srv.Len() != 1 {
			t.Errorf("told to end %d times, %d sessions", n, f.srv.Len())
		}
		_ = f.client.Close()
		receive(t, f.closed)
	})
}

// Bytes of one session are not mixed up with those of another, also if more arrive than fit into the buffer.
func TestTLSLoopLargeMessages(t *testing.T) {
	const clients, size = 6, 400 << 10
	f, _ := overTLSLoop(t, echo(), &session.Options{MaxMessage: 1 << 20, QueueBytes: 4 << 20})
	var all sync.WaitGroup
	for i := range clients {
		c := f.dial()
		all.Go(func() {
			message := strings.Repeat(string(rune('a'+i)), size) + "\n"
			got := make([]byte, len(message))
			for range 5 {
				if _, err := io.WriteString(c, message); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(c, got); err != nil || string(got) != message {
					t.Errorf("other bytes have arrived, %v", err)
					return
				}
			}
		})
	}
	testwait.Return(t, all.Wait)
}
