package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

func TestForms(t *testing.T) {
	p := newPlace(t, nil)
	p.server.Handle("Raw", rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) {
		out := append([]byte("you said "), *in...)
		return &out, nil
	}))
	p.server.Handle("Inline", rpc.Method{Protocol: frame.Bare, Inline: true, Func: func(_ context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		return append(dst, c.Body()...), nil
	}})
	c := p.dial(nil)
	wantEcho(t, c, "")
	wantEcho(t, c, strings.Repeat("long ", 200_000))
	r := &rpc.Request{Form: rpc.Raw}
	for _, in := range []string{"", "a", strings.Repeat("x", 3<<20)} {
		for method, want := range map[string]string{"Raw": "you said " + in, "Inline": in} {
			r.Method = method
			var out []byte
			if err := c.Do(testwait.Context(t), r, []byte(in), &out); err != nil || string(out) != want || string(r.Reply()) != want {
				t.Errorf("%s of %d bytes: %d bytes, %v", method, len(in), len(out), err)
			}
		}
	}
	if err := c.Call(testwait.Context(t), "Echo", &text{"a"}, nil); err != nil {
		t.Error(err)
	}
	if err := c.Do(testwait.Context(t), &rpc.Request{Method: "Raw", Form: rpc.Raw}, 7, nil); rpc.CodeOf(err) != rpc.BadMessage {
		t.Errorf("a number in place of bytes: %v", err)
	}
}

func TestErrors(t *testing.T) {
	p := newPlace(t, &rpc.Options{Frame: &frame.Options{MaxFrame: 1 << 20}})
	cause := errors.New("the disk is full")
	for name, err := range map[string]error{
		"plain":    errors.New("no such thing"),
		"own":      rpc.Errorf(12_345, "a message"),
		"empty":    &rpc.Error{Code: 7_000},
		"wrapped":  fmt.Errorf("around: %w", rpc.Errorf(20_000, "inside: %w", cause)),
		"deadline": fmt.Errorf("slow: %w", context.DeadlineExceeded),
		"thrift":   &frame.ApplicationException{Code: frame.MissingResult, Message: "none"},
	} {
		rpc.Handle(p.server, name, func(context.Context, *text) (*text, error) { return nil, err })
	}
	rpc.Handle(p.server, "panic", func(context.Context, *text) (*text, error) { panic("no") })
	rpc.Handle(p.server, "exit", func(context.Context, *text) (*text, error) { runtime.Goexit(); return nil, nil }) //nolint:nilnil // not reached
	rpc.Handle(p.server, "channel", func(context.Context, *text) (*chan int, error) { return new(chan int), nil })
	rpc.Handle(p.server, "large", func(context.Context, *text) (*text, error) { return &text{strings.Repeat("x", 2<<20)}, nil })
	p.server.Handle("compact", rpc.Method{Protocol: frame.Compact, Func: func(_ context.Context, _ *rpc.Call, dst []byte) ([]byte, error) { return dst, nil }})
	c := p.dial(nil)
	for _, tt := range []struct {
		method  string
		code    rpc.Code
		message string
	}{
		{"plain", rpc.Unknown, "no such thing"},
		{"own", 12_345, "a message"},
		{"empty", 7_000, ""},
		{"wrapped", 20_000, "around: inside: the disk is full"},
		{"deadline", rpc.DeadlineExceeded, "slow: context deadline exceeded"},
		{"thrift", 5, "none"},
		{"panic", rpc.Internal, "the handler of panic has panicked"},
		{"exit", rpc.Internal, "the handler of exit has panicked"},
		{"channel", rpc.Internal, "the result of channel: json: unsupported type: chan int"},
		{"large", rpc.TooLarge, "the answer has 2097163 bytes, at most 1048576 are allowed"},
		{"compact", rpc.UnknownMethod, `the method "compact" is handled in other forms, not in that of the call (protocol bare)`},
		{"nothing", rpc.UnknownMethod, `there is no method "nothing"`},
	} {
		_, err := ask(t, c, tt.method, "a")
		var e *rpc.Error
		if !errors.As(err, &e) || e.Code != tt.code || e.Message != tt.message || !e.Remote {
			t.Errorf("%s: %v", tt.method, err)
		}
		if isContext := errors.Is(err, context.DeadlineExceeded); isContext != (tt.code == rpc.DeadlineExceeded) {
			t.Errorf("%s: %v is a deadline: %t", tt.method, err, isContext)
		}
	}
	if err := c.Do(testwait.Context(t), &rpc.Request{Method: "Echo", Form: rpc.Raw}, []byte("{"), nil); rpc.CodeOf(err) != rpc.BadMessage ||
		err.Error() != "rpc: the arguments of Echo: unexpected end of JSON input (code 7)" {
		t.Error(err)
	}
	var number int
	if err := c.Call(testwait.Context(t), "Echo", &text{"a"}, &number); rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
	if err := c.Call(testwait.Context(t), strings.Repeat("x", 1<<17), nil, nil); rpc.CodeOf(err) != rpc.TooLarge || !errors.Is(err, frame.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := ask(t, c, "Echo", strings.Repeat("x", 5<<20)); rpc.CodeOf(err) != rpc.TooLarge {
		t.Error(err)
	}
	wantEcho(t, c, "after all that")
	testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
	if s := p.server.Stats(); s.Panics != 2 || s.Failed < 9 || s.Refused != 2 {
		t.Errorf("%+v", s)
	}
}

// A slow method delays no other on its connection, and hundreds of calls are under way at once.
func TestMultiplexed(t *testing.T) {
	p := newPlace(t, nil)
	slow := p.block("Slow")
	c := p.dial(nil)
	var waiting []<-chan error
	for i := range 500 {
		waiting = append(waiting, start(c, testwait.Context(t), "Slow", fmt.Sprint(i)))
	}
	for range waiting {
		testwait.Receive(t, slow.began)
	}
	wantEcho(t, c, "meanwhile")
	testwait.True(t, "the other call has ended", func() bool { return p.server.Stats().Pending <= 500 })
	if n, s := c.Pending(), p.server.Stats(); n != 500 || s.Pending != 500 || s.Conns != 1 {
		t.Errorf("%d calls wait, %+v", n, s)
	}
	close(slow.release)
	for _, done := range waiting {
		if err := testwait.Receive(t, done); err != nil {
			t.Error(err)
		}
	}
}

// A deadline travels with the call, and ends it on both sides; a call that is canceled is canceled on the server, too.
func TestDeadlineAndCancel(t *testing.T) {
	p := newPlace(t, nil)
	slow := p.block("Slow")
	c := p.dial(nil)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := start(c, ctx, "Slow", "a")
	call := testwait.Receive(t, slow.began)
	if err := testwait.Receive(t, done); !errors.Is(err, context.DeadlineExceeded) || rpc.CodeOf(err) != rpc.DeadlineExceeded {
		t.Error(err)
	}
	testwait.Receive(t, call.Context().Done())
	if at, ok := call.Context().Deadline(); !ok || time.Until(at) > 20*time.Millisecond {
		t.Error("the server did not know the deadline:", at, ok)
	}

	ctx, cancel = context.WithCancel(t.Context())
	done = start(c, ctx, "Slow", "b")
	call = testwait.Receive(t, slow.began)
	if _, ok := call.Context().Deadline(); ok || call.Context().Err() != nil {
		t.Error("a call without deadline has one")
	}
	cancel()
	if err := testwait.Receive(t, done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testwait.Receive(t, call.Context().Done())
	if err := call.Context().Err(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
	if s := p.server.Stats(); s.Canceled == 0 {
		t.Errorf("%+v", s)
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Call(gone, "Echo", &text{"c"}, nil); rpc.CodeOf(err) != rpc.Canceled {
		t.Error(err)
	}
	wantEcho(t, c, "after all that")
}

// What is over a bound is refused at once, with an error that says that the call may be made elsewhere.
func TestOverloaded(t *testing.T) {
	for name, tt := range map[string]struct {
		server *rpc.Options
		client *rpc.ConnOptions
		size   int
	}{
		"calls of a connection":  {&rpc.Options{MaxCalls: 2}, nil, 1},
		"calls of all":           {&rpc.Options{MaxAllCalls: 2}, nil, 1},
		"bytes of a connection":  {&rpc.Options{MaxBytes: 2500}, nil, 1000},
		"calls of the client":    {nil, &rpc.ConnOptions{MaxCalls: 2}, 1},
		"tasks of the executor":  {&rpc.Options{Executor: &fewTasks{left: 2}}, nil, 1},
		"calls, compressed ones": {&rpc.Options{MaxCalls: 2}, &rpc.ConnOptions{Compress: frame.Gzip, CompressFrom: 10}, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, tt.server)
			slow := p.block("Slow")
			c := p.dial(tt.client)
			body := strings.Repeat("x", tt.size)
			var waiting []<-chan error
			for range 2 {
				waiting = append(waiting, start(c, testwait.Context(t), "Slow", body))
				testwait.Receive(t, slow.began)
			}
			if _, err := ask(t, c, "Slow", body); rpc.CodeOf(err) != rpc.Overloaded || !rpc.Refused(err) {
				t.Error(err)
			}
			if err := c.Send(testwait.Context(t), "Slow", &text{body}); err != nil && rpc.CodeOf(err) != rpc.Overloaded {
				t.Error(err)
			}
			close(slow.release)
			for _, done := range waiting {
				if err := testwait.Receive(t, done); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// fewTasks is an executor that takes so many tasks.
type fewTasks struct{ left int }

func (f *fewTasks) TrySubmit(_ uint64, task func()) error {
	if f.left == 0 {
		return errors.New("no more")
	}
	f.left--
	go task()
	return nil
}

// Metadata travels both ways, interceptors run in order, and one-way calls are not answered.
func TestInterceptorsAndMetadata(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
	}
	server := func(name string) rpc.Interceptor {
		return func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
			if c.Method() == "Ask" {
				note(name)
			}
			return next(ctx, c, dst)
		}
	}
	client := func(name string) rpc.ClientInterceptor {
		return func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			note(name)
			r.Metadata = append(r.Metadata, rpc.Pair{Key: "from " + name, Value: "yes"})
			return next(ctx, r, in, out)
		}
	}
	p := newPlace(t, &rpc.Options{Interceptors: []rpc.Interceptor{server("outer"), server("inner")}})
	got := make(chan *rpc.Call, 1)
	rpc.Handle(p.server, "Ask", func(ctx context.Context, in *text) (*text, error) {
		c := rpc.From(ctx)
		c.SetMetadata("answer", "42")
		value, _ := c.Metadata("key")
		missing, ok := c.Metadata("none")
		return &text{fmt.Sprint(value, " ", missing, ok, " ", len(c.AllMetadata()), c.IsOneWay(), c.RemoteAddr() != nil, c.Protocol())}, nil
	})
	rpc.Handle(p.server, "Tell", func(ctx context.Context, _ *text) (*text, error) {
		got <- rpc.From(ctx)
		return nil, errors.New("is not seen")
	})
	c := p.dial(&rpc.ConnOptions{Interceptors: []rpc.ClientInterceptor{client("first"), client("second")}})
	r := &rpc.Request{Method: "Ask", Metadata: []rpc.Pair{{Key: "key", Value: "value"}}}
	var out text
	if err := c.Do(testwait.Context(t), r, &text{"a"}, &out); err != nil || out.Text != "value false 3 false true bare" {
		t.Errorf("%q, %v", out.Text, err)
	}
	if v, ok := r.ReplyMetadata("answer"); v != "42" || !ok {
		t.Errorf("%q, %t", v, ok)
	}
	mu.Lock()
	if got := strings.Join(order, " "); got != "first second outer inner" {
		t.Error(got)
	}
	mu.Unlock()
	if err := c.Send(testwait.Context(t), "Tell", &text{"a"}); err != nil {
		t.Error(err)
	}
	if call := testwait.Receive(t, got); !call.IsOneWay() {
		t.Error("the call is not one-way")
	}
	wantEcho(t, c, "after all that")
	if n := c.Late(); n != 0 {
		t.Errorf("%d answers came to calls that did not wait", n)
	}
	if s := p.server.Stats(); s.OneWay != 1 {
		t.Errorf("%+v", s)
	}
	if rpc.From(context.Background()) != nil {
		t.Error("a context without a call has one")
	}
}
