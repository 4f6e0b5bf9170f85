package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/eventloop"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

func init() { acceptAsLoop = asLoop }

// watched is a listener whose acceptor a list of descriptors watches.
type watched struct {
	l      *transport.Listener
	list   *eventloop.Poller
	events *eventloop.EventBuffer
	a      *transport.Acceptor // or nil
	left   int                 // number of calls of leave
}

func watch(l *transport.Listener) (*watched, error) {
	list, err := eventloop.NewPoller()
	return &watched{l: l, list: list, events: eventloop.NewEventBuffer(4)}, err
}

func (w *watched) begin() (err error) {
	w.a, err = w.l.Acceptor(func(fd int) error { return w.list.Add(fd, eventloop.In, 1) }, func(fd int) {
		w.left++
		_ = w.list.Remove(fd)
	})
	return err
}

// next waits for a connection.
func (w *watched) next() (transport.Descriptor, error) {
	for {
		if err := w.list.Wait(w.events, -1); err != nil {
			return transport.Descriptor{}, err
		}
		if d, ok, err := w.a.Accept(); ok || err != nil {
			return d, err
		}
	}
}

// asLoop returns a function that accepts like a server with an event loop: with an acceptor until that fails, and then once without.
func asLoop(l *transport.Listener) (func() (net.Conn, error), error) {
	w, err := watch(l)
	return func() (net.Conn, error) {
		for {
			if w.a == nil {
				conn, err := acceptEither(l, true)
				if err == nil && w.begin() != nil {
					w.a = nil
				}
				return conn, err
			}
			d, err := w.next()
			if err == nil {
				defer d.Close()
				return transport.Attach(d)
			}
			w.a.Close()
			w.a = nil
		}
	}, err
}

// watchedTCP returns a TCP listener and its acceptor.
func watchedTCP(t *testing.T, o *transport.Options) *watched {
	t.Helper()
	w, err := watch(listen(t, "tcp", "127.0.0.1:0", o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.l.Close()
		_ = w.list.Close()
	})
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	return w
}

func dialed(t *testing.T, l *transport.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// An acceptor returns a connection if a client has connected, and does not wait. Waiting calls of Accept and AcceptDescriptor continue when the
// acceptor is closed.
func TestAcceptor(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	w, err := watch(l)
	if err != nil {
		t.Fatal(err)
	}
	defer w.list.Close()
	got := make(chan net.Conn)
	for _, bare := range []bool{false, true} { // one of each waits when the acceptor begins, and one when it has begun
		go func() {
			for range 2 {
				conn, err := acceptEither(l, bare)
				if err != nil {
					t.Error(err)
				}
				got <- conn
			}
		}()
	}
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acceptor(nil, nil); err == nil {
		t.Error("there are two acceptors")
	}
	for range 10 {
		conn := dialed(t, l)
		d, err := w.next()
		if err != nil {
			t.Fatal(err)
		}
		if at := conn.LocalAddr().(*net.TCPAddr).AddrPort(); d.Remote != at || d.Local.String() != l.Addr().String() {
			t.Error(d.Remote, at, d.Local)
		}
		_ = d.Close()
		if _, ok, err := w.a.Accept(); ok || err != nil {
			t.Error(ok, err)
		}
	}
	select {
	case conn := <-got:
		t.Error("another got", conn)
	default:
	}
	w.a.Close()
	w.a.Close()
	if _, _, err := w.a.Accept(); !errors.Is(err, net.ErrClosed) || w.left != 1 {
		t.Error(err, w.left)
	}
	for range 4 {
		dialed(t, l)
		_ = (testwait.Receive(t, got)).Close()
	}
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Accepted; n != 14 {
		t.Error(n)
	}
}

// Close of the listener ends its acceptor, and the calls that wait for the end of the acceptor. The port is free at once.
func TestAcceptorClosed(t *testing.T) {
	w := watchedTCP(t, nil)
	waits := make(chan error)
	go func() {
		_, err := w.l.AcceptDescriptor()
		waits <- err
	}()
	if err := w.l.Close(); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, waits); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	testwait.Receive(t, w.l.Closed())
	again, err := transport.Listen(context.Background(), "tcp", w.l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if _, _, err := w.a.Accept(); !errors.Is(err, net.ErrClosed) || w.left != 1 {
		t.Error(err, w.left)
	}
	if err := w.begin(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Acceptor returns the error of join, and the listener is unchanged.
func TestAcceptorJoin(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	no := errors.New("no")
	if _, err := l.Acceptor(func(int) error { return no }, func(int) { t.Error("left") }); !errors.Is(err, no) {
		t.Error(err)
	}
	conn := dialed(t, l)
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Other listeners have no acceptor.
func TestAcceptorUnsupported(t *testing.T) {
	for name, l := range map[string]*transport.Listener{
		"wrapped": wrap(t, "tcp", "127.0.0.1:0", nil),
		"unix":    listen(t, "unix", socketPath(t), nil),
		"proxy":   listen(t, "tcp", "127.0.0.1:0", &transport.Options{Proxy: &transport.Proxy{}}),
	} {
		w, err := watch(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.begin(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		_ = w.list.Close()
	}
}

// The options are also on connections that Accept returns after an acceptor has ended.
func TestAcceptorOptions(t *testing.T) {
	w := watchedTCP(t, &transport.Options{Delay: true, KeepAlive: 70 * time.Second})
	w.a.Close()
	dialed(t, w.l)
	conn, err := w.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fd := bare(t, conn)
	if d, k := getsockopt(t, fd, 6, 1), getsockopt(t, fd, 6, 4); d != 0 || k != 70 { // TCP_NODELAY, TCP_KEEPIDLE
		t.Error(d, k)
	}
}

// A connection that its client resets before Accept is passed over, as long as its address cannot be known.
func TestAcceptorReset(t *testing.T) {
	w := watchedTCP(t, nil)
	w.a.Close()
	gone := dialed(t, w.l)
	_ = gone.(*net.TCPConn).SetLinger(0)
	_ = gone.Close()
	there := dialed(t, w.l)
	conn, err := w.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr(); got == nil || got.String() != there.LocalAddr().String() {
		t.Errorf("%v, not %v", got, there.LocalAddr())
	}
	if n := w.l.Stats().Aborted; n != 1 {
		t.Error(n)
	}
}
