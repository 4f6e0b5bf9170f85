package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

var bareDialect = frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}

// panickingError is an error without a text.
type panickingError struct{}

func (*panickingError) Error() string { panic("no text") }

// An error of a handler whose methods panic is answered like a panic of the handler: also an *Error that is nil.
func TestErrorsThatPanic(t *testing.T) {
	p := newPlace(t, nil)
	for name, err := range map[string]error{"nil": (*rpc.Error)(nil), "text": &panickingError{}} {
		for _, isInline := range []bool{false, true} {
			m := rpc.MethodOf(rpc.JSON, func(context.Context, *text) (*text, error) { return nil, err })
			m.Inline = isInline
			p.server.Handle(fmt.Sprint(name, isInline), m)
		}
	}
	c := p.dial(nil)
	for _, method := range []string{"nilfalse", "niltrue", "textfalse", "texttrue"} {
		if _, err := ask(t, c, method, "a"); rpc.CodeOf(err) != rpc.Internal {
			t.Errorf("%s: %v", method, err)
		}
	}
	wantEcho(t, c, "after all that")
	testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
	if s := p.server.Stats(); s.Panics != 4 || s.Failed != 4 {
		t.Errorf("%+v", s)
	}
}

// A handler may end its goroutine and panic meanwhile.
func TestPanicAtTheEndOfTheGoroutine(t *testing.T) {
	p := newPlace(t, nil)
	rpc.Handle(p.server, "Exit", func(context.Context, *text) (*text, error) {
		defer func() { panic("no") }()
		runtime.Goexit()
		return nil, nil //nolint:nilnil // not reached
	})
	c := p.dial(nil)
	if _, err := ask(t, c, "Exit", "a"); rpc.CodeOf(err) != rpc.Internal {
		t.Error(err)
	}
	testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
	if s := p.server.Stats(); s.Panics != 1 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
	wantEcho(t, c, "after all that")
}

// An answer may be in memory of the handler, or be the body of the call. Such memory is not used for other answers.
func TestAnswersInOtherMemory(t *testing.T) {
	twice := func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
		if body, err := next(ctx, c, dst); err != nil {
			return body, err
		}
		return next(ctx, c, dst)
	}
	p := newPlace(t, &rpc.Options{Interceptors: []rpc.Interceptor{twice}})
	const want = "this answer is always the same"
	fixed := []byte(want)
	p.server.Handle("Fixed", rpc.Method{Protocol: frame.Bare, Inline: true, Func: func(context.Context, *rpc.Call, []byte) ([]byte, error) { return fixed, nil }})
	p.server.Handle("Body", rpc.Method{Protocol: frame.Bare, Func: func(_ context.Context, c *rpc.Call, _ []byte) ([]byte, error) { return c.Body(), nil }})
	echo := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	echo.Inline = true
	p.server.Handle("Raw", echo)
	c := p.dial(nil)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			r := &rpc.Request{Form: rpc.Raw}
			for j := range 100 {
				in := []byte(strings.Repeat(fmt.Sprint(i, " ", j, " "), 3+j%3*1500))
				for method, want := range map[string][]byte{"Fixed": []byte(want), "Raw": in, "Body": in} {
					r.Method = method
					var out []byte
					if err := c.Do(testwait.Context(t), r, in, &out); err != nil || !bytes.Equal(out, want) {
						t.Errorf("%s of %q is answered %q, %v", method, in, out, err)
						return
					}
				}
			}
		})
	}
	testwait.Return(t, group.Wait)
	if string(fixed) != want {
		t.Errorf("the memory of the handler has become %q", fixed)
	}
}

// Answers to one-way calls complete nothing, and those to others complete them once, also if they come before their calls are sent.
func TestAnswersInAdvance(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	var group sync.WaitGroup
	group.Go(func() { // answers calls before they are made
		for w.receive() != nil {
		}
	})
	const calls = 400
	group.Go(func() {
		for n := int32(0); ; n++ {
			id := 1 + n%calls
			f := &frame.Frame{Dialect: bareDialect, Kind: frame.Reply, Sequence: id, HeaderSequence: id}
			f.SetMethod("Echo")
			if out, err := f.AppendEncode(nil, nil); err != nil {
				t.Error(err)
			} else if _, err := there.Write(out); err != nil {
				return
			}
		}
	})
	r := &rpc.Request{Method: "Echo"}
	for i := range calls {
		r.OneWay = i%2 == 0
		if err := c.Do(testwait.Context(t), r, nil, nil); err != nil {
			t.Fatal(err)
		}
		if r.IsCompleted() {
			t.Fatal("a completion is left, which the next call with the Request will take")
		}
	}
	_ = c.Close()
	testwait.Return(t, group.Wait)
}

// A connection that is asked to make no more calls, while there are some, loses none of them.
func TestDrainingLosesNoCall(t *testing.T) {
	p := newPlace(t, nil)
	for range 200 {
		c := p.dial(nil)
		var group sync.WaitGroup
		var begun sync.WaitGroup
		for i := range 4 {
			begun.Add(1)
			group.Go(func() {
				for first := true; ; first = false {
					_, err := ask(t, c, "Echo", fmt.Sprint(i))
					if first {
						begun.Done()
					}
					if rpc.Refused(err) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		begun.Wait()
		if err := c.Shutdown(testwait.Context(t)); err != nil {
			t.Error(err)
		}
		testwait.Return(t, group.Wait)
	}
}

// A deadline that is further away than a time.Duration can be does not become a short one.
func TestDistantDeadline(t *testing.T) {
	p := newPlace(t, nil)
	slow := p.block("Slow")
	c := p.dial(nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().AddDate(1000, 0, 0))
	defer cancel()
	done := start(c, ctx, "Slow", "a")
	call := testwait.Receive(t, slow.began)
	if at, ok := call.Context().Deadline(); ok && time.Until(at) < time.Hour {
		t.Errorf("the deadline is %v", at)
	}
	close(slow.release)
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
}

// A long text of an error ends no connection.
func TestLongErrors(t *testing.T) {
	p := newPlace(t, nil)
	rpc.Handle(p.server, "Fail", func(context.Context, *text) (*text, error) { return nil, errors.New(strings.Repeat("é", 3<<20)) })
	c := p.dial(nil)
	_, err := ask(t, c, "Fail", "a")
	var e *rpc.Error
	if !errors.As(err, &e) || e.Code != rpc.Unknown || !e.Remote || len(e.Message) > 1<<20 || strings.Trim(e.Message, "é") != "…" {
		t.Errorf("%d bytes, code %d", len(fmt.Sprint(err)), rpc.CodeOf(err))
	}
	wantEcho(t, c, "after that")
}

// What the other side would not take, by the limits that both have, fails one call and not the connection.
func TestLimitsOfFrames(t *testing.T) {
	const most = 1 << 16
	limits := &frame.Options{MaxFrame: most}
	p := newPlace(t, &rpc.Options{Frame: limits})
	raw := rpc.MethodOf(rpc.Raw, func(ctx context.Context, in *[]byte) (*[]byte, error) {
		c := rpc.From(ctx)
		if n, ok := c.Metadata("answer bytes"); ok {
			size, _ := strconv.Atoi(n)
			out := make([]byte, size)
			return &out, nil
		}
		if n, ok := c.Metadata("answer pair"); ok {
			size, _ := strconv.Atoi(n)
			c.SetMetadata("pair", strings.Repeat("x", size))
		}
		if n, ok := c.Metadata("answer pairs"); ok {
			pairs, _ := strconv.Atoi(n)
			for range pairs {
				c.SetMetadata("", "")
			}
		}
		if len(*in) == 1 {
			return nil, errors.New("no")
		}
		return in, nil
	})
	p.server.Handle("Raw", raw)
	for _, compress := range []frame.Transform{0, frame.Gzip} {
		c := p.dial(&rpc.ConnOptions{Frame: limits, Form: rpc.Raw, Compress: compress})
		do := func(body int, pairs ...rpc.Pair) error {
			return c.Do(testwait.Context(t), &rpc.Request{Method: "Raw", Metadata: pairs}, make([]byte, body), nil)
		}
		ok, refused := 0, 0
		check := func(what string, size int, err error) {
			switch code := rpc.CodeOf(err); {
			case err == nil:
				ok++
			case code == rpc.TooLarge:
				refused++
			default:
				t.Errorf("%s of %d: %v", what, size, err)
			}
		}
		for size := most - 100; size <= most; size++ {
			check("a call", size, do(size))
			check("an answer", size, do(0, rpc.Pair{Key: "answer bytes", Value: strconv.Itoa(size)}))
		}
		for _, size := range []int{1 << 10, 16 << 10, 16<<10 + 1, 40_000, 65_000, 70_000} {
			check("a pair", size, do(0, rpc.Pair{Key: "a", Value: strings.Repeat("x", size)}))
			check("a pair of an answer", size, do(0, rpc.Pair{Key: "answer pair", Value: strconv.Itoa(size)}))
			if err := do(1, rpc.Pair{Key: "answer pair", Value: strconv.Itoa(size)}); rpc.CodeOf(err) != rpc.Unknown {
				t.Errorf("an error with a pair of %d bytes: %v", size, err)
			}
		}
		for _, n := range []int{200, 255, 256, 257, 300, 70_000} {
			check("pairs", n, do(0, make([]rpc.Pair, n)...))
			check("pairs of an answer", n, do(0, rpc.Pair{Key: "answer pairs", Value: strconv.Itoa(n)}))
		}
		r := &rpc.Request{Method: strings.Repeat("x", 257)}
		check("a method", 257, c.Do(testwait.Context(t), r, nil, nil))
		if !c.Usable() || ok < 50 || refused < 10 {
			t.Errorf("%d calls answered, %d refused, then %v", ok, refused, c.Err())
		}
	}
}

// Metadata takes memory while its call is under way, so it counts.
func TestMetadataIsBounded(t *testing.T) {
	p := newPlace(t, &rpc.Options{MaxBytes: 2500})
	slow := p.block("Slow")
	c := p.dial(nil)
	long := []rpc.Pair{{Key: "key", Value: strings.Repeat("x", 1000)}}
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- c.Do(testwait.Context(t), &rpc.Request{Method: "Slow", Metadata: long}, nil, nil) }()
		testwait.Receive(t, slow.began)
	}
	if err := c.Do(testwait.Context(t), &rpc.Request{Method: "Slow", Metadata: long}, nil, nil); rpc.CodeOf(err) != rpc.Overloaded {
		t.Error(err)
	}
	close(slow.release)
	for range 2 {
		if err := testwait.Receive(t, done); err != nil {
			t.Error(err)
		}
	}
	for range 10 { // all bytes were given back
		if err := c.Do(testwait.Context(t), &rpc.Request{Method: "Slow", Metadata: long}, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

// An answer in another protocol than its call's is not taken for the result.
func TestAnswerInAnotherProtocol(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Form: rpc.Raw})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	done := make(chan error, 1)
	var out []byte
	go func() { done <- c.Call(testwait.Context(t), "Echo", []byte("a"), &out) }()
	w.receive() // the greeting
	f := w.receive()
	if f == nil || f.Kind != frame.Call {
		t.Fatalf("%+v", f)
	}
	reply := &frame.Frame{Dialect: frame.Dialect{Framing: frame.Framed, Protocol: frame.Binary}, Kind: frame.Reply, Sequence: f.Sequence}
	w.send(reply, "Echo", []byte{0})
	if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.BadMessage {
		t.Errorf("%v, %q", err, out)
	}
	testwait.Return(t, func() { _ = c.Close() })
}

// Without a bound on the silence, a draining connection waits for its client.
func TestNoDrainGrace(t *testing.T) {
	p := newPlace(t, &rpc.Options{DrainGrace: -1})
	slow := p.block("Slow")
	c := p.dial(nil)
	done := start(c, testwait.Context(t), "Slow", "a")
	testwait.Receive(t, slow.began)
	ended := make(chan error, 1)
	go func() { ended <- p.server.Shutdown(testwait.Context(t)) }()
	testwait.True(t, "the client makes no more calls", func() bool { return !c.Usable() })
	close(slow.release)
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
}

// A client that says only during Shutdown that it understands control frames is told then.
func TestGreetingDuringShutdown(t *testing.T) {
	p := newPlace(t, &rpc.Options{DrainGrace: time.Hour})
	p.server.Handle("Echo", rpc.Method{Protocol: frame.Binary, Func: func(_ context.Context, _ *rpc.Call, dst []byte) ([]byte, error) { return append(dst, 0), nil }})
	late, early := p.dialWire(), p.dialWire()
	late.send(&frame.Frame{Dialect: frame.Dialect{Framing: frame.Framed, Protocol: frame.Binary}, Kind: frame.Call, Sequence: 3}, "Echo", []byte{0})
	if f := late.receive(); f == nil || f.Sequence != 3 {
		t.Fatalf("%+v", f)
	}
	early.control("sluice.ping", "1")
	if f := early.receive(); f == nil || f.Value("sluice.ping") == nil {
		t.Fatalf("%+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.server.Shutdown(ctx) }()
	if f := early.receive(); f == nil || f.Value("crrst") == nil {
		t.Fatalf("%+v", f)
	}
	late.control("sluice.ping", "1")
	var got string
	for range 2 {
		f := late.receive()
		if f == nil {
			t.Fatal("the connection has ended")
		}
		for _, pair := range f.Pairs {
			got += string(pair.Key) + " "
		}
	}
	if got != "crrst sluice.ping " && got != "sluice.ping crrst " {
		t.Error(got)
	}
	_, _ = late.conn.Close(), early.conn.Close()
	if err := testwait.Receive(t, ended); err != nil {
		t.Error(err)
	}
}

// Whatever a session does when its queue is full, no answer is missing from a connection that goes on.
func TestPoliciesLoseNoAnswer(t *testing.T) {
	const calls = 200
	for _, policy := range []session.Policy{session.Wait, session.DropOldest, session.Refuse, session.CloseSlow} {
		p := newPlace(t, &rpc.Options{Session: &session.Options{Policy: policy, QueueFrames: 1, QueueBytes: 1}})
		here, there := net.Pipe()
		if err := p.server.ServeConn(here); err != nil {
			t.Fatal(err)
		}
		w := newWire(t, there)
		var all []byte
		for i := range int32(calls) {
			f := &frame.Frame{Dialect: bareDialect, Kind: frame.Call, Sequence: i + 1, HeaderSequence: i + 1}
			f.SetMethod("Echo")
			var err error
			if all, err = f.AppendEncode(all, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = there.Write(all) }()
		testwait.True(t, "a call was handled", func() bool { return p.server.Stats().Calls > 0 })
		for i := range calls {
			if w.receive() == nil {
				if policy != session.CloseSlow {
					t.Errorf("policy %v: the connection ended after %d answers", policy, i)
				}
				break
			}
		}
		_ = there.Close()
		testwait.Receive(t, sent)
	}
}

// A client that makes the next call when it has an answer is never refused: the call that was answered does not count any more.
func TestCallsThatAreAnsweredDoNotCount(t *testing.T) {
	p := newPlace(t, &rpc.Options{MaxCalls: 1})
	c := p.dial(nil)
	for i := range 2000 {
		if _, err := ask(t, c, "Echo", "a"); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

// A handler that runs where the connection is read, and ends that goroutine, ends its connection, and nothing is left of the call.
func TestEndOfTheReadingGoroutine(t *testing.T) {
	p := newPlace(t, nil)
	m := rpc.MethodOf(rpc.JSON, func(context.Context, *text) (*text, error) { runtime.Goexit(); return nil, nil }) //nolint:nilnil // not reached
	m.Inline = true
	p.server.Handle("Exit", m)
	c := p.dial(nil)
	if _, err := ask(t, c, "Exit", "a"); rpc.CodeOf(err) != rpc.Internal && rpc.CodeOf(err) != rpc.Lost {
		t.Error(err)
	}
	testwait.Receive(t, c.Done())
	testwait.True(t, "nothing is under way", func() bool { s := p.server.Stats(); return s.Pending == 0 && s.Conns == 0 })
	if s := p.server.Stats(); s.Panics != 1 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
	wantEcho(t, p.dial(nil), "after that")
}

// A call with a small body does not hold the memory of a large one while its handler waits: the bounds do not count that.
func TestWaitingCallsHoldLittle(t *testing.T) {
	p := newPlace(t, nil)
	p.server.Handle("Raw", rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }))
	held := make(chan int, 1)
	p.server.Handle("Wait", rpc.Method{Protocol: frame.Bare, Func: func(ctx context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
		held <- c.Held() + cap(dst)
		<-ctx.Done()
		return dst, nil
	}})
	p.server.Handle("Stream", rpc.Method{Protocol: frame.Bare, Stream: func(ctx context.Context, c *rpc.Call, _ func([]byte) error) error {
		held <- c.Held()
		<-ctx.Done()
		return nil
	}})
	c := p.dial(&rpc.ConnOptions{Form: rpc.Raw})
	ctx, cancel := context.WithCancel(testwait.Context(t))
	defer cancel()
	large, r := make([]byte, 60<<10), &rpc.Request{Method: "Raw"}
	var group sync.WaitGroup
	for range 50 {
		for range 3 {
			var out []byte
			if err := c.Do(ctx, r, large, &out); err != nil || len(out) != len(large) {
				t.Fatalf("%d bytes, %v", len(out), err)
			}
		}
		group.Go(func() { _ = c.Call(ctx, "Wait", []byte("a"), nil) })
		if n := testwait.Receive(t, held); n > 16<<10 {
			t.Fatalf("a call that waits holds %d bytes", n)
		}
		if _, err := c.Stream(ctx, &rpc.Request{Method: "Stream"}, []byte("a")); err != nil {
			t.Fatal(err)
		}
		if n := testwait.Receive(t, held); n > 16<<10 {
			t.Fatalf("a stream that waits holds %d bytes", n)
		}
	}
	cancel()
	testwait.Return(t, group.Wait)
}
