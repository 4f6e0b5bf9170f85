package rpc_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
)

var (
	randomCalls = flag.Int("rpc.calls", 60_000, "how many calls TestRandomCalls makes")
	randomSeed  = flag.Uint64("rpc.seed", 0, "the seed of TestRandomCalls; 0: another one each time")
)

// randomServers is a server that is replaced again and again, and the connections to it.
type randomServers struct {
	mu      sync.Mutex
	address string
	server  *rpc.Server
	conns   []*rpc.Conn
	served  sync.WaitGroup
}

// restart starts another server, and ends the old one: in order, or not.
func (s *randomServers) restart(t *testing.T, r *rand.Rand) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	server := rpc.NewServer(&rpc.Options{MaxCalls: 40, DrainGrace: 10 * time.Millisecond})
	rpc.Handle(server, "Echo", func(_ context.Context, in *text) (*text, error) { return in, nil })
	rpc.Handle(server, "Fail", func(_ context.Context, in *text) (*text, error) { return nil, rpc.Errorf(30_000, "%s", in.Text) })
	rpc.Handle(server, "Wait", func(ctx context.Context, in *text) (*text, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(len(in.Text)%7) * time.Millisecond):
			return in, nil
		}
	})
	rpc.HandleStream(server, "Many", func(_ context.Context, in *many, send func(*text) error) error {
		for i := range in.Count {
			if err := send(&text{in.message(i)}); err != nil {
				return err
			}
		}
		if in.Fails {
			return rpc.Errorf(30_000, "%s", in.Text)
		}
		return nil
	})
	echo := rpc.MethodOf(rpc.JSON, func(_ context.Context, in *text) (*text, error) { return in, nil })
	echo.Inline = true
	server.Handle("Inline", echo)
	s.served.Go(func() { _ = server.Serve(ln) })
	s.mu.Lock()
	old := s.server
	s.server, s.address = server, ln.Addr().String()
	s.mu.Unlock()
	switch {
	case old == nil:
	case r.IntN(2) == 0:
		_ = old.Close()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(100))*time.Millisecond)
		_ = old.Shutdown(ctx)
		cancel()
	}
}

// conn returns a connection that can be used, one of a few.
func (s *randomServers) conn(r *rand.Rand) *rpc.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := r.IntN(len(s.conns))
	if c := s.conns[i]; c != nil && c.Usable() {
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := rpc.Dial(ctx, "tcp", s.address, &rpc.ConnOptions{MaxCalls: 50, StreamMessages: 1 + r.IntN(50), StreamBytes: 1 + r.IntN(10_000)})
	if err != nil {
		return nil
	}
	s.conns[i] = c
	return c
}

// many is the argument of a method with a stream.
type many struct {
	Text  string
	Count int
	Fails bool // after the messages
}

// message returns a message of the stream.
func (m *many) message(i int) string { return fmt.Sprintf("%d of %s", i, m.Text) }

// TestRandomCalls: while connections are cut and servers restarted, every call ends once, with its own answer or an error of this package that fits, and
// nothing is left of it. The messages of a stream come in order and without gaps until its end, or an error that fits. Each caller uses one Request for all its calls, so an answer that came too late would be taken for another's.
func TestRandomCalls(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // not a secret
	}
	t.Logf("-rpc.seed %d", seed)
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) } //nolint:gosec // not a secret
	s := &randomServers{conns: make([]*rpc.Conn, 4)}
	s.restart(t, random(0))
	const callers = 64
	var left, answered atomic.Int64
	left.Store(int64(*randomCalls))
	codes := make([]map[rpc.Code]int, callers)
	var group sync.WaitGroup
	for i := range callers {
		codes[i] = map[rpc.Code]int{}
		group.Go(func() {
			r, request := random(uint64(i)+1), &rpc.Request{}
			for left.Add(-1) >= 0 && !t.Failed() {
				if c := s.conn(r); c != nil {
					err := randomCall(c, r, request)
					codes[i][rpc.CodeOf(err)]++
					if err == nil {
						answered.Add(1)
					} else if !typed(err) {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	r := random(1000)
trouble:
	for {
		select {
		case <-done:
			break trouble
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		}
		if r.IntN(5) == 0 {
			s.restart(t, r)
		} else if c := s.conn(r); c != nil {
			_ = c.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c != nil {
			testwait.True(t, "no call waits", func() bool { return c.Pending() == 0 })
			testwait.Return(t, func() { _ = c.Close() })
		}
	}
	testwait.True(t, "no call is under way", func() bool { return s.server.Stats().Pending == 0 })
	testwait.Return(t, func() { _ = s.server.Close() })
	testwait.Return(t, s.served.Wait)
	all := map[rpc.Code]int{}
	for _, one := range codes {
		for code, n := range one {
			all[code] += n
		}
	}
	t.Logf("%d calls answered; by code, 0 included: %v", answered.Load(), all)
	if answered.Load() == 0 {
		t.Error("no call was answered")
	}
}

// typed reports whether an error may end a call.
func typed(err error) bool {
	var e *rpc.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case rpc.Overloaded, rpc.Unavailable, rpc.Lost, rpc.DeadlineExceeded, rpc.Canceled:
		return true
	default:
		return false
	}
}

// randomCall makes a call that may be canceled, or be too late.
func randomCall(c *rpc.Conn, r *rand.Rand, request *rpc.Request) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch r.IntN(8) {
	case 0:
		time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, cancel)
	case 1:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		defer cancel()
	case 2:
		return c.Send(ctx, "Echo", &text{"one way"})
	}
	if r.IntN(8) == 0 {
		return randomStream(ctx, c, r, request)
	}
	request.Method = []string{"Echo", "Inline", "Wait", "Fail"}[r.IntN(4)]
	in, out := text{fmt.Sprintf("%d %0*d", r.Uint64(), r.IntN(300), 7)}, text{}
	err := c.Do(ctx, request, &in, &out)
	var e *rpc.Error
	switch isFailure := errors.As(err, &e) && e.Code == 30_000; {
	case isFailure && request.Method == "Fail" && e.Message == in.Text && e.Remote:
		return nil
	case isFailure:
		return fmt.Errorf("%s of %q has another call's error, %w", request.Method, in.Text, errors.New(e.Message))
	case err == nil && (out != in || request.Method == "Fail"):
		return fmt.Errorf("%s of %q is answered %q", request.Method, in.Text, out.Text)
	}
	return err
}

// randomStream opens a stream, and may close it before its end.
func randomStream(ctx context.Context, c *rpc.Conn, r *rand.Rand, request *rpc.Request) error {
	in := &many{fmt.Sprintf("%d %0*d", r.Uint64(), r.IntN(300), 7), r.IntN(100), r.IntN(4) == 0}
	request.Method = "Many"
	s, err := c.Stream(ctx, request, in)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	stop := -1
	if r.IntN(4) == 0 {
		stop = r.IntN(in.Count + 1)
	}
	for i := 0; i != stop; i++ {
		var out text
		err := s.Receive(&out)
		var e *rpc.Error
		switch isFailure := errors.As(err, &e) && e.Code == 30_000; {
		case err == nil && i < in.Count && out.Text == in.message(i):
			continue
		case err == nil:
			return fmt.Errorf("message %d of %q is %q", i, in.Text, out.Text)
		case errors.Is(err, io.EOF) && i == in.Count && !in.Fails, isFailure && i == in.Count && in.Fails && e.Message == in.Text && e.Remote:
			return nil
		case errors.Is(err, io.EOF), isFailure:
			return fmt.Errorf("the stream of %+v ends after %d messages, %w", in, i, errors.New(err.Error()))
		}
		return err
	}
	return nil
}
