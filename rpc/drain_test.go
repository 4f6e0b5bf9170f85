package rpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// Shutdown of a server: calls under way are answered, clients make no new ones, and connections end when they have nothing to wait for.
func TestShutdown(t *testing.T) {
	p := newPlace(t, &rpc.Options{DrainGrace: time.Hour}) // clients end their connections
	slow := p.block("Slow")
	busy, idle := p.dial(nil), p.dial(nil)
	wantEcho(t, idle, "a")
	done := start(busy, testwait.Context(t), "Slow", "a")
	testwait.Receive(t, slow.began)
	ended := make(chan error, 1)
	go func() { ended <- p.server.Shutdown(testwait.Context(t)) }()
	testwait.Receive(t, idle.Done())
	testwait.True(t, "the client makes no more calls", func() bool { return !busy.Usable() })
	if _, err := ask(t, busy, "Echo", "b"); rpc.CodeOf(err) != rpc.Unavailable || !rpc.Refused(err) {
		t.Error(err)
	}
	close(slow.release)
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
	testwait.Receive(t, busy.Done())
	if _, err := ask(t, busy, "Echo", "c"); rpc.CodeOf(err) != rpc.Unavailable {
		t.Error(err)
	}
	if _, err := rpc.Dial(testwait.Context(t), "tcp", p.address, nil); rpc.CodeOf(err) != rpc.Unavailable {
		t.Error(err)
	}
}

// Servers that are shut down one after the other, while many callers make calls and go to the next, lose no call.
func TestShutdownLosesNoCall(t *testing.T) {
	const callers, servers = 50, 5
	var current atomic.Pointer[rpc.Conn]
	var stop atomic.Bool
	var calls, again atomic.Int64
	var group sync.WaitGroup
	next := func() *place {
		p := newPlace(t, &rpc.Options{DrainGrace: time.Hour})
		current.Store(p.dial(nil))
		return p
	}
	p := next()
	for range callers {
		group.Go(func() {
			for !stop.Load() {
				switch _, err := ask(t, current.Load(), "Echo", "a"); {
				case err == nil:
					calls.Add(1)
				case rpc.Refused(err):
					again.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	for range servers {
		before := calls.Load()
		testwait.True(t, "there are calls", func() bool { return calls.Load() > before+1000 || t.Failed() })
		old := p
		p = next()
		if err := old.server.Shutdown(testwait.Context(t)); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	testwait.Return(t, group.Wait)
	t.Logf("%d calls, %d refused and made again", calls.Load(), again.Load())
}

// A connection whose client does not understand that it should close ends when it has been silent.
func TestShutdownOfOthers(t *testing.T) {
	p := newPlace(t, &rpc.Options{DrainGrace: time.Millisecond})
	p.server.Handle("Echo", rpc.Method{Protocol: frame.Binary, Func: func(_ context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		return append(dst, c.Body()...), nil
	}})
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	w := newWire(t, conn)
	w.send(&frame.Frame{Dialect: frame.Dialect{Framing: frame.Framed, Protocol: frame.Binary}, Kind: frame.Call, Sequence: 3}, "Echo", []byte{0})
	if f := w.receive(); f == nil || f.Sequence != 3 {
		t.Fatal("no answer")
	}
	if err := p.server.Shutdown(testwait.Context(t)); err != nil {
		t.Error(err)
	}
	if f := w.receive(); f != nil {
		t.Errorf("%v", f)
	}
}

// Shutdown that lasts too long, and Close, cancel what is under way.
func TestClose(t *testing.T) {
	for _, isShutdown := range []bool{true, false} {
		p := newPlace(t, nil)
		slow := p.block("Slow")
		c := p.dial(nil)
		done := start(c, testwait.Context(t), "Slow", "a")
		testwait.Receive(t, slow.began)
		if isShutdown {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		} else {
			testwait.Return(t, func() { _ = p.server.Close() })
		}
		err := testwait.Receive(t, done)
		if code := rpc.CodeOf(err); code != rpc.Lost && code != rpc.Canceled || rpc.Refused(err) {
			t.Error(err)
		}
		testwait.Receive(t, c.Done())
		if c.Err() == nil || c.Pending() != 0 {
			t.Error(c.Err(), c.Pending())
		}
	}
}

// The client's ends of a connection.
func TestConnClose(t *testing.T) {
	p := newPlace(t, nil)
	slow := p.block("Slow")
	c := p.dial(nil)
	if c.Err() != nil {
		t.Error(c.Err())
	}
	done := start(c, testwait.Context(t), "Slow", "a")
	call := testwait.Receive(t, slow.began)
	_ = c.Close()
	if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost || !errors.Is(err, session.ErrClosed) {
		t.Error(err)
	}
	testwait.Receive(t, call.Context().Done()) // the caller is gone

	c = p.dial(nil)
	done = start(c, testwait.Context(t), "Slow", "a")
	testwait.Receive(t, slow.began)
	ended := make(chan error, 1)
	go func() { ended <- c.Shutdown(testwait.Context(t)) }()
	testwait.True(t, "there are no new calls", func() bool { return !c.Usable() })
	if _, err := ask(t, c, "Echo", "a"); rpc.CodeOf(err) != rpc.Unavailable {
		t.Error(err)
	}
	slow.release <- struct{}{}
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}

	c = p.dial(nil)
	done = start(c, testwait.Context(t), "Slow", "a")
	testwait.Receive(t, slow.began)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost {
		t.Error(err)
	}
}

// A server that does not answer heartbeats is given up.
func TestSilentServer(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	done := start(c, testwait.Context(t), "Echo", "a")
	for w.receive() != nil { // and answer nothing
	}
	if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost || !strings.Contains(err.Error(), "heartbeat") {
		t.Error(err)
	}
	testwait.Receive(t, c.Done())
}

// A server is asked for a sign of life when it was silent, and not given up if there is one.
func TestHeartbeat(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Heartbeat: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	if f := w.receive(); f == nil || f.Value("sluice.ping") == nil {
		t.Fatalf("the greeting is %+v", f)
	}
	ask := func() {
		ticked := make(chan struct{})
		go func() { defer close(ticked); c.Tick() }()
		if f := w.receive(); f == nil || f.Value("sluice.ping") == nil {
			t.Fatalf("%+v", f)
		}
		testwait.Receive(t, ticked)
	}
	for i := range uint64(5) {
		ask()
		w.control("sluice.ping", "1")
		reply := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Reply, Sequence: 1, HeaderSequence: 1}
		w.send(reply, "Echo", nil)
		testwait.True(t, "the answer has arrived", func() bool { return c.Late() == i+1 })
		c.Tick() // there was something, so nothing is asked
	}
	if !c.Usable() {
		t.Error("the connection has ended:", c.Err())
	}
	ask()
	c.Tick() // nothing has come for as long again
	testwait.Receive(t, c.Done())
}

// A server whose answer takes longer to arrive than heartbeats last is not silent.
func TestHeartbeatDuringAnAnswer(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Heartbeat: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	w.receive() // the greeting
	go func() { // takes the pings
		for w.receive() != nil {
		}
	}()
	reply := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}, Kind: frame.Reply, Sequence: 1, HeaderSequence: 1}
	reply.SetMethod("Echo")
	answer, err := reply.AppendEncode(nil, make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for len(answer) > 0 {
		n := min(len(answer), 100)
		before := c.Received()
		if _, err := there.Write(answer[:n]); err != nil {
			t.Fatal(err)
		}
		answer = answer[n:]
		testwait.True(t, "the bytes have arrived", func() bool { return c.Received() > before })
		c.Tick()
	}
	testwait.True(t, "the answer has arrived", func() bool { return c.Late() == 1 })
	if !c.Usable() {
		t.Error("the connection has ended:", c.Err())
	}
	c.Tick() // nothing has come
	c.Tick() // for as long again
	testwait.Receive(t, c.Done())
}
