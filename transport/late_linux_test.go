package transport_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

func init() {
	pairs["late"] = func(t *testing.T) (a, b net.Conn) { return latePair(t, nil) }
}

// latePair returns both ends of a connection, the first one late.
func latePair(t *testing.T, o *transport.Options) (a, b net.Conn) {
	t.Helper()
	l := listen(t, "tcp", "127.0.0.1:0", o)
	b = dialed(t, l)
	a, err := l.Late().Accept()
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, a, b)
}

// Where there is nothing to be late for, the listener is what it is.
func TestLateOthers(t *testing.T) {
	for _, l := range []*transport.Listener{
		listen(t, "unix", socketPath(t), nil), listen(t, "tcp", "127.0.0.1:0", &transport.Options{TLS: new(tls.Config)}),
	} {
		if late := l.Late(); late != net.Listener(l) {
			t.Errorf("%T", late)
		}
	}
}

// Addresses are right, and options are on it and can be set, whether anybody waits or not.
func TestLateOptions(t *testing.T) {
	for _, waits := range []bool{false, true} {
		a, b := latePair(t, &transport.Options{KeepAlive: 70 * time.Second})
		if a.RemoteAddr().String() != b.LocalAddr().String() || a.LocalAddr().String() != b.RemoteAddr().String() {
			t.Error(a.RemoteAddr(), a.LocalAddr())
		}
		if waits {
			if _, err := a.(syscall.Conn).SyscallConn(); err != nil {
				t.Fatal(err)
			}
		}
		tcp := a.(interface {
			SetNoDelay(bool) error
			SetKeepAliveConfig(net.KeepAliveConfig) error
			SetWriteBuffer(int) error
		})
		err := errors.Join(tcp.SetNoDelay(false), tcp.SetWriteBuffer(20<<10),
			tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Interval: 1500 * time.Millisecond, Count: 3}))
		if err != nil {
			t.Error(err)
		}
		fd := bare(t, a)
		for _, w := range []struct{ level, name, value int }{
			{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0},
			{syscall.SOL_SOCKET, syscall.SO_SNDBUF, 40 << 10},
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 70},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 2},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
		} {
			if got := getsockopt(t, fd, w.level, w.name); got != w.value {
				t.Errorf("waits %v: option %d is %d, not %d", waits, w.name, got, w.value)
			}
		}
	}
}

// A late connection is taken with what has arrived and is not read, and is over for others; before and after somebody has waited.
func TestLateDetach(t *testing.T) {
	for _, waits := range []bool{false, true} {
		a, b := latePair(t, nil)
		if waits {
			_ = a.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := a.Read(make([]byte, 1)); !isTimeout(err) {
				t.Fatal(err)
			}
		}
		if _, err := b.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		d, ok, err := transport.Detach(a)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if d.Remote.String() != b.LocalAddr().String() || d.Local.String() != b.RemoteAddr().String() {
			t.Error(d)
		}
		for _, err := range []error{
			a.Close(), a.SetDeadline(time.Now()), onlyError(a.Read(make([]byte, 1))), onlyError(a.Write([]byte("x"))),
			onlyError(a.(syscall.Conn).SyscallConn()),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("waits %v: %v", waits, err)
			}
		}
		again, err := transport.Attach(d)
		if err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
		_ = again.SetDeadline(time.Now().Add(10 * time.Second))
		got := make([]byte, 5)
		if _, err := io.ReadFull(again, got); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		_ = again.Close()
		if _, err := b.Read(got); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}

func onlyError[T any](_ T, err error) error { return err }

// What several write at once is not mixed, though the connection joins the poller in the middle.
func TestLateWriters(t *testing.T) {
	a, b := latePair(t, &transport.Options{SendBuffer: 8 << 10})
	const size, each = 256 << 10, 4
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			p := make([]byte, size)
			for j := range p {
				p[j] = byte(i)
			}
			for range each {
				if n, err := a.Write(p); n != size || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	p := make([]byte, size)
	for range 4 * each {
		if _, err := io.ReadFull(b, p); err != nil {
			t.Fatal(err)
		}
		for _, c := range p {
			if c != p[0] {
				t.Fatal("mixed")
			}
		}
	}
	testwait.Return(t, writers.Wait)
}

// A server of net/http serves over late connections: requests that are kept waiting, bodies, connections that are used again, and
// deadlines.
func TestLateHTTP(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0", nil)
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l.Late()) }()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	for i := range 20 {
		body := make([]byte, i*i<<10)
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write(body)
			_ = w.Close()
		}()
		res, err := client.Post("http://"+l.Addr().String(), "application/octet-stream", r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || len(got) != len(body) {
			t.Error(len(got), err)
		}
		_ = res.Body.Close()
	}
	client.CloseIdleConnections()
	_ = srv.Close()
	if err := testwait.Receive(t, served); !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// Close waits for who uses the descriptor, who may still call all other methods meanwhile.
func TestLateCloseWaits(t *testing.T) {
	a, _ := latePair(t, nil)
	rc, err := a.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	err = rc.Control(func(uintptr) {
		go func() { closed <- a.Close() }()
		for !errors.Is(a.SetDeadline(time.Time{}), net.ErrClosed) {
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, closed); err != nil {
		t.Error(err)
	}
}
