package session_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/session"
)

// closingConn closes its session in Read, when it has read more than ten bytes.
type closingConn struct {
	net.Conn
	s atomic.Pointer[session.Session]
	n int
}

func (c *closingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.n += n; c.n > 10 {
		c.s.Load().Close()
	}
	return n, err
}

// Close of a session returns at once in code of the user that the session's goroutine calls.
func TestCloseInReadOfTheConnection(t *testing.T) {
	closed := make(chan bool, 1)
	h := echo()
	h.Close = func(*session.Session, *session.CloseInfo) { closed <- true }
	srv := session.NewServer(line, &h, nil)
	a, b := net.Pipe()
	c := &closingConn{Conn: b}
	if _, err := srv.ServeConn(c, &session.Attach{Made: func(s *session.Session) { c.s.Store(s) }}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = a.Write([]byte("0123456789abcdef\n")) }()
	receive(t, closed)
	_ = srv.Close()
	_ = a.Close()
}

// closingWire closes the server in ReadFrom.
type closingWire struct {
	*wire
	srv      *session.Server
	returned chan error
}

func (w *closingWire) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := w.wire.ReadFrom(b)
	if err == nil && string(b[:n]) == "quit\n" {
		w.returned <- w.srv.Close()
	}
	return n, from, err
}

// Close of a server returns at once in code of the user that the reader of a socket calls. Addresses of sessions work afterwards, too.
func TestCloseInReadOfTheSocket(t *testing.T) {
	w := &closingWire{wire: newWire(), returned: make(chan error, 1)}
	h := echo()
	sessions := make(chan *session.Session, 1)
	h.Open = func(s *session.Session) error { sessions <- s; return nil }
	w.srv = session.NewServer(line, &h, nil)
	served := make(chan error, 1)
	go func() { served <- w.srv.ServePacket(w) }()
	w.deliver("a", "x\n")
	s := receive(t, sessions)
	here := s.LocalAddr()
	w.deliver("a", "quit\n")
	if err := receive(t, w.returned); err != nil {
		t.Error(err)
	}
	_ = receive(t, served)
	if s.LocalAddr() != here || here == nil || s.RemoteAddr().String() != "a" {
		t.Errorf("the session is between %v and %v", s.LocalAddr(), s.RemoteAddr())
	}
}

// strangeAddr is an address whose text is whatever a test says.
type strangeAddr struct{ text func() string }

func (*strangeAddr) Network() string  { return "strange" }
func (a *strangeAddr) String() string { return a.text() }

// strangeWire is a socket that returns the same address object for all peers.
type strangeWire struct {
	*wire
	peer   string
	during func() // called in String
	addr   strangeAddr
}

func (w *strangeWire) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := w.wire.ReadFrom(b)
	if err != nil {
		return n, nil, err
	}
	w.peer = strings.Clone(from.String())
	w.addr.text = func() string {
		w.during()
		return w.peer
	}
	return n, &w.addr, nil
}

func (w *strangeWire) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }

// The text of an address is asked for once, without a lock: it may change, and its method may use the sessions of the socket.
func TestStrangeAddresses(t *testing.T) {
	closed := make(chan bool, 10)
	h := session.Handler{Message: func(*session.Session, []byte) {}, Close: func(*session.Session, *session.CloseInfo) { closed <- true }}
	srv := session.NewServer(line, &h, nil)
	ends := false
	w := &strangeWire{wire: newWire(), during: func() {
		for s := range srv.Sessions() {
			if ends {
				s.Abort(errOurs)
			}
		}
	}}
	served := make(chan error, 1)
	go func() { served <- srv.ServePacket(w) }()
	for i, name := range []string{"a", "b", "a"} {
		w.deliver(name, "x\n")
		await(t, func() bool { return srv.Stats().Messages == uint64(i+1) })
	}
	if n := srv.Len(); n != 2 {
		t.Errorf("there are %d sessions", n)
	}
	ends = true
	w.deliver("c", "x\n")
	receive(t, closed)
	receive(t, closed)
	_ = srv.Close()
	_ = receive(t, served)
}

// If code of the user has ended the goroutine of a dispatch while Shutdown waits, Drain is still called.
func TestDrainAfterAGoroutineHasEnded(t *testing.T) {
	in, goOn, drained := make(chan bool), make(chan bool), make(chan bool, 1)
	h := echo()
	h.Drain = func(s *session.Session) {
		drained <- true
		s.End(nil, nil)
	}
	f := servePackets(t, packetKinds[0], &h, &session.Options{Observer: &session.Observer{BadDatagram: func(*session.Session, error) {
		in <- true
		<-goOn
		runtime.Goexit()
	}}})
	conn := f.dial(t)
	write(t, conn, "a\n")
	expectPacket(t, conn, "a\n")
	write(t, conn, "incomplete")
	receive(t, in)
	done := make(chan error, 1)
	go func() { done <- f.srv.Shutdown(context.Background()) }()
	await(t, func() bool { return session.OwesDrain(f.srv) })
	close(goOn)
	await(t, func() bool {
		write(t, conn, "b\n")
		return len(drained) > 0
	})
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
}

// Sessions are dialed, and end, while the watchdog looks at all sockets.
func TestDialWhileTheWatchdogTicks(t *testing.T) {
	h := echo()
	f := servePackets(t, packetKinds[0], &h, nil)
	c := session.NewClient(line, &session.Handler{Message: func(s *session.Session, _ []byte) { s.Value().(chan bool) <- true }}, nil)
	defer c.Close()
	var dialers sync.WaitGroup
	for range 4 {
		dialers.Go(func() {
			for range 50 {
				answered := make(chan bool, 1)
				s, err := c.DialWith(context.Background(), "udp", f.at.String(), &session.Attach{Value: answered})
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Send([]byte("x"))
				<-answered
				s.Close()
			}
		})
	}
	dialers.Wait()
}
