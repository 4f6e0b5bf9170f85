package main_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	sidecar "github.com/sluice-push/sluice/examples/sidecar"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/splice"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

// listen listens on a port or a path of the test.
func listen(t testing.TB, network string) net.Listener {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// where is the address of a listener as -listen and -to have it.
func where(ln net.Listener) string {
	if ln.Addr().Network() == "unix" {
		return "unix:" + ln.Addr().String()
	}
	return ln.Addr().String()
}

// service is a server of calls: Echo returns the body, Hold does so when release is closed.
type service struct {
	ln      net.Listener
	srv     *rpc.Server
	held    chan struct{} // has a value for each Hold that has begun
	release chan struct{}
}

// serve starts a service, which is closed at the end of the test.
func serve(t testing.TB, ln net.Listener) *service {
	t.Helper()
	s := &service{ln: ln, srv: rpc.NewServer(&rpc.Options{MaxBytes: -1}), held: make(chan struct{}, 100), release: make(chan struct{})}
	s.srv.Handle("Echo", rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }))
	s.srv.Handle("Hold", rpc.MethodOf(rpc.Raw, func(ctx context.Context, in *[]byte) (*[]byte, error) {
		s.held <- struct{}{}
		select {
		case <-s.release:
			return in, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	done := make(chan error, 1)
	go func() { done <- s.srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.srv.Close()
		if err := testwait.Hold(t, done); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// start starts a proxy in this process. It is shut down at the end of the test.
func start(t testing.TB, network string, p *sidecar.Proxy) net.Listener {
	t.Helper()
	ln := listen(t, network)
	done := make(chan error, 1)
	go func() { done <- p.Serve(ln) }()
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := testwait.Hold(t, done); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the proxy ended with %v", err)
		}
	})
	return ln
}

// dial connects a client of calls with raw bodies.
func dial(t testing.TB, network, address string) *rpc.Conn {
	t.Helper()
	conn, err := rpc.Dial(testwait.Context(t), network, address, &rpc.ConnOptions{Form: rpc.Raw})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		testwait.Hold(t, conn.Done())
	})
	return conn
}

// body returns bytes that belong to a number, of 0 B to 2 MiB, few of which are large.
func body(number uint64) []byte {
	r := rand.New(rand.NewPCG(number, 0))
	most := 2 << 10
	switch number % 50 {
	case 0:
		most = 2 << 20
	case 1:
		return nil
	case 2:
		most = 200 << 10
	}
	b := make([]byte, r.IntN(most+1))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], number+uint64(i))
	}
	return b
}

// calls makes many calls at a time over a connection, and compares the answers.
func calls(t *testing.T, conn *rpc.Conn, first, n uint64) {
	t.Helper()
	ctx := testwait.Context(t)
	var callers sync.WaitGroup
	for caller := range uint64(64) {
		callers.Go(func() {
			for number := first + caller; number < first+n; number += 64 {
				in, out := body(number), []byte(nil)
				if err := conn.Call(ctx, "Echo", in, &out); err != nil || string(out) != string(in) {
					t.Errorf("call %d of %d bytes: %d bytes, %v", number, len(in), len(out), err)
					return
				}
			}
		})
	}
	testwait.Return(t, callers.Wait)
}

// Thousands of calls, many at a time, of bodies of all sizes, get their own answers. Large bodies are spliced where the sockets can.
func TestForward(t *testing.T) {
	for _, networks := range [][2]string{{"unix", "tcp"}, {"tcp", "unix"}, {"tcp", "tcp"}, {"unix", "unix"}} {
		for name, threshold := range map[string]int64{"default": 0, "spliced": -1, "copied": 1 << 40} {
			t.Run(fmt.Sprintf("%s-%s/%s", networks[0], networks[1], name), func(t *testing.T) {
				s := serve(t, listen(t, networks[1]))
				p := sidecar.NewProxy(where(s.ln), 10, &splice.Options{Threshold: threshold})
				ln := start(t, networks[0], p)
				const connections = 2
				each := uint64(200)
				if threshold == 0 {
					each = 1000
				}
				var clients sync.WaitGroup
				for i := range uint64(connections) {
					conn := dial(t, networks[0], ln.Addr().String())
					clients.Go(func() { calls(t, conn, i*each, each) })
				}
				testwait.Return(t, clients.Wait)
				if calls, answers := p.Calls(); calls != connections*each || answers != calls {
					t.Errorf("%d calls and %d answers were forwarded, want %d", calls, answers, connections*each)
				}
				if spliced := p.Spliced(); canSplice != (spliced > 0) && name != "copied" || name == "copied" && spliced > 0 {
					t.Errorf("%d bytes were spliced", spliced)
				}
			})
		}
	}
}

// Answers overtake each other.
func TestOutOfOrder(t *testing.T) {
	s := serve(t, listen(t, "tcp"))
	ln := start(t, "unix", sidecar.NewProxy(where(s.ln), 1, nil))
	conn := dial(t, "unix", ln.Addr().String())
	first := make(chan error, 1)
	go func() {
		var out []byte
		first <- conn.Call(testwait.Context(t), "Hold", []byte("first"), &out)
	}()
	testwait.Receive(t, s.held)
	calls(t, conn, 0, 100)
	close(s.release)
	if err := testwait.Receive(t, first); err != nil {
		t.Error(err)
	}
}

// While the server is away clients are disconnected. A server that comes back is used, and one that ends takes its clients with it.
func TestServerAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server")
	p := sidecar.NewProxy("unix:"+path, 10, nil)
	ln := start(t, "tcp", p)
	ctx := testwait.Context(t)
	away, err := rpc.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, away.Done())
	if err := away.Call(ctx, "Echo", nil, nil); !rpc.Refused(err) {
		t.Errorf("a call while the server is away: %v", err)
	}

	back, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, back)
	conn := dial(t, "tcp", ln.Addr().String())
	calls(t, conn, 0, 10)
	pending := make(chan error, 1)
	go func() { pending <- conn.Call(ctx, "Hold", nil, nil) }()
	testwait.Receive(t, s.held)
	_ = s.srv.Close()
	if err := testwait.Receive(t, pending); err == nil {
		t.Error("a call was answered by a server that has ended")
	}
	testwait.Receive(t, conn.Done())
	testwait.True(t, "no client is left", func() bool { return p.Clients() == 0 })
}

// Calls that were forwarded are answered before the proxy ends; it takes no new clients.
func TestShutdown(t *testing.T) {
	s := serve(t, listen(t, "tcp"))
	p := sidecar.NewProxy(where(s.ln), 10, nil)
	ln := start(t, "unix", p)
	conn, idle := dial(t, "unix", ln.Addr().String()), dial(t, "unix", ln.Addr().String())
	calls(t, idle, 1, 1)
	held := make(chan error, 1)
	go func() {
		in, out := make([]byte, 1<<20), []byte(nil)
		err := conn.Call(testwait.Context(t), "Hold", in, &out)
		if err == nil && len(out) != len(in) {
			err = fmt.Errorf("%d bytes", len(out))
		}
		held <- err
	}()
	testwait.Receive(t, s.held)
	ended := make(chan error, 1)
	go func() { ended <- p.Shutdown(testwait.Context(t)) }()
	testwait.Receive(t, idle.Done()) // it has nothing to wait for
	if conn, err := net.Dial("unix", ln.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("a proxy that is ending takes new clients")
	}
	close(s.release)
	if err := testwait.Receive(t, held); err != nil {
		t.Errorf("the call that was under way: %v", err)
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
	testwait.Receive(t, conn.Done())
}

// What is still not answered when the time is up ends with its connection.
func TestShutdownLate(t *testing.T) {
	s := serve(t, listen(t, "unix"))
	p := sidecar.NewProxy(where(s.ln), 10, nil)
	ln := start(t, "tcp", p)
	conn := dial(t, "tcp", ln.Addr().String())
	held := make(chan error, 1)
	go func() { held <- conn.Call(testwait.Context(t), "Hold", nil, nil) }()
	testwait.Receive(t, s.held)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := testwait.Receive(t, held); err == nil {
		t.Error("a call was answered that was not released")
	}
}

// A stream is one call, however many messages it has, and a call that was canceled is not waited for.
func TestShutdownWithStreams(t *testing.T) {
	s := serve(t, listen(t, "tcp"))
	s.srv.Handle("Many", rpc.StreamOf(rpc.Raw, func(_ context.Context, in *[]byte, send func(*[]byte) error) error {
		for range 100 {
			if err := send(in); err != nil {
				return err
			}
		}
		return nil
	}))
	p := sidecar.NewProxy(where(s.ln), 1, nil)
	conn := dial(t, "unix", start(t, "unix", p).Addr().String())
	ctx, cancel := context.WithCancel(testwait.Context(t))
	canceled := make(chan error, 1)
	go func() { canceled <- conn.Call(ctx, "Hold", []byte("a"), nil) }()
	testwait.Receive(t, s.held)
	held := make(chan error, 1)
	go func() { held <- conn.Call(testwait.Context(t), "Hold", []byte("b"), nil) }()
	testwait.Receive(t, s.held)
	many, err := conn.Stream(testwait.Context(t), &rpc.Request{Method: "Many"}, []byte("c"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = many.Receive(nil)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if calls, answers := p.Calls(); calls != 3 || answers != 1 {
		t.Errorf("%d calls, %d answers", calls, answers)
	}
	cancel()
	if err := testwait.Receive(t, canceled); rpc.CodeOf(err) != rpc.Canceled {
		t.Error(err)
	}
	testwait.True(t, "the server has canceled the call", func() bool { return s.srv.Stats().Pending == 1 })
	ended := make(chan error, 1)
	go func() { ended <- p.Shutdown(testwait.Context(t)) }()
	testwait.True(t, "no more calls are taken", p.Draining)
	select {
	case err := <-ended:
		t.Fatalf("it has ended before the answer: %v", err)
	case err := <-held:
		t.Fatalf("the call has ended before its answer: %v", err)
	default:
	}
	close(s.release)
	if err := testwait.Receive(t, held); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
}
