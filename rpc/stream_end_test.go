package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
	"github.com/sluice-push/sluice/session"
)

// The caller ends a stream: its handler learns that at once, also while it waits for credit, and nothing is left of it on either side.
func TestStreamEndsEarly(t *testing.T) {
	p := newPlace(t, nil)
	count := p.stream("Count")
	rpc.HandleStream(p.server, "Silent", func(ctx context.Context, _ *request, _ func(*text) error) error {
		count.began <- rpc.From(ctx)
		<-ctx.Done()
		count.ended <- ctx.Err()
		return ctx.Err()
	})
	c := p.dial(nil)
	other := open(t, c, testwait.Context(t), "Count", &request{Count: -1})
	testwait.Receive(t, count.began)
	for _, method := range []string{"Count", "Silent"} {
		for name, tt := range map[string]struct {
			timeout time.Duration
			end     func(s *rpc.Stream, cancel func())
			want    error
		}{
			"close":    {0, func(s *rpc.Stream, _ func()) { _ = s.Close() }, context.Canceled},
			"cancel":   {0, func(_ *rpc.Stream, cancel func()) { cancel() }, context.Canceled},
			"deadline": {5 * time.Millisecond, func(*rpc.Stream, func()) {}, context.DeadlineExceeded},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				s, call, cancel := count.begin(t, p, c, method, tt.timeout)
				defer cancel()
				if _, ok := call.Context().Deadline(); ok != (tt.timeout > 0) {
					t.Error("the server has another deadline")
				}
				received := make(chan error, 1)
				go func() {
					for {
						if err := s.Receive(nil); err != nil {
							received <- err
							return
						}
					}
				}()
				tt.end(s, cancel)
				testwait.Receive(t, s.Done())
				if err := testwait.Receive(t, received); !errors.Is(err, tt.want) {
					t.Error(err)
				}
				if err := s.Err(); !errors.Is(err, tt.want) {
					t.Error(err)
				}
				testwait.Receive(t, call.Context().Done())
				if err := testwait.Receive(t, count.ended); !errors.Is(err, tt.want) && !errors.Is(err, context.Canceled) { // what comes first
					t.Error(err)
				}
				testwait.True(t, "only the other stream is left", func() bool { return c.Pending() == 1 && p.server.Stats().Pending == 1 })
				_ = s.Close()
			})
		}
	}
	wantMessages(t, other, 0, 1000)
	_ = other.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Stream(gone, &rpc.Request{Method: "Count"}, nil); rpc.CodeOf(err) != rpc.Canceled {
		t.Error(err)
	}
	wantEcho(t, c, "after all that")
	wantNothingLeft(t, p, c)
}

// begin opens a stream and waits until its handler has begun. If a deadline passes before, it tries again with a later one.
func (w *streamed) begin(t *testing.T, p *place, c *rpc.Conn, method string, timeout time.Duration) (*rpc.Stream, *rpc.Call, context.CancelFunc) {
	t.Helper()
	if timeout == 0 {
		ctx, cancel := context.WithCancel(t.Context())
		return open(t, c, ctx, method, &request{Count: -1}), testwait.Receive(t, w.began), cancel
	}
	for ; ; timeout *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		s, err := c.Stream(ctx, &rpc.Request{Method: method}, &request{Count: -1})
		if err != nil {
			cancel()
			continue
		}
		select {
		case call := <-w.began:
			return s, call, cancel
		case <-s.Done():
		}
		cancel()
		wantEcho(t, c, "behind the call, which the server has seen then")
		testwait.True(t, "the late call has ended", func() bool { return p.server.Stats().Pending == 1 })
		for len(w.began) > 0 {
			<-w.began
			_ = testwait.Receive(t, w.ended)
		}
	}
}

// After the last message, neither Close nor the context changes how the call has ended.
func TestStreamThatHasEnded(t *testing.T) {
	p := newPlace(t, nil)
	p.stream("Count")
	c := p.dial(nil)
	ctx, cancel := context.WithCancel(t.Context())
	s := open(t, c, ctx, "Count", &request{Count: 5})
	testwait.Receive(t, s.Done())
	cancel()
	wantMessages(t, s, 0, 5)
	wantEnd(t, s, 0)
	_ = s.Close()
	if s.Err() != nil {
		t.Error(s.Err())
	}
	wantNothingLeft(t, p, c)
	if n := p.server.Stats().Canceled; n != 0 {
		t.Errorf("%d calls were canceled", n)
	}
}

// The connection ends: what has arrived is received first, and then the error.
func TestStreamIsLost(t *testing.T) {
	for name, end := range map[string]func(p *place, c *rpc.Conn){
		"client": func(_ *place, c *rpc.Conn) { _ = c.Close() },
		"server": func(p *place, _ *rpc.Conn) { _ = p.server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, nil)
			count := p.stream("Count")
			c := p.dial(&rpc.ConnOptions{StreamMessages: 10})
			s := open(t, c, testwait.Context(t), "Count", &request{Count: -1})
			wantMessages(t, s, 0, 4)
			for range 10 {
				testwait.Receive(t, count.sent)
			}
			testwait.Return(t, func() { end(p, c) })
			testwait.Receive(t, s.Done())
			if err := testwait.Receive(t, count.ended); rpc.CodeOf(err) != rpc.Canceled && rpc.CodeOf(err) != rpc.Lost {
				t.Error(err)
			}
			for i := 4; ; i++ {
				var out text
				err := s.Receive(&out)
				if err != nil {
					if code := rpc.CodeOf(err); code != rpc.Lost && code != rpc.Canceled || rpc.Refused(err) || errors.Is(err, io.EOF) {
						t.Error(err)
					}
					break
				}
				if out.Text != fmt.Sprint(i) {
					t.Errorf("message %d is %q", i, out.Text)
				}
			}
			wantNothingLeft(t, p, c)
			testwait.Receive(t, c.Done()) // a server that is closed ends its calls before the connection
			if _, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, nil); rpc.CodeOf(err) != rpc.Unavailable {
				t.Error(err)
			}
		})
	}
}

// No error is taken for the end of a stream, although its cause is an io.EOF: of the connection, of a form, or of the context.
func TestErrorsOfStreamsAreNoEnd(t *testing.T) {
	p := newPlace(t, nil)
	p.server.Handle("Endless", rpc.Method{Protocol: frame.Binary, Stream: func(_ context.Context, _ *rpc.Call, send func([]byte) error) error {
		for {
			if err := send([]byte{0}); err != nil {
				return err
			}
		}
	}})
	c := p.dial(&rpc.ConnOptions{Form: anyForm{frame.Binary}})
	ctx, cancel := context.WithCancelCause(t.Context())
	byContext, byForm, byConnection := open(t, c, ctx, "Endless", nil), open(t, c, t.Context(), "Endless", nil), open(t, c, t.Context(), "Endless", nil)
	cancel(io.EOF)
	testwait.Receive(t, byContext.Done())
	err := byForm.Receive(io.EOF) // anyForm fails with that
	if rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
	testwait.Return(t, func() { _ = p.server.Close() })
	testwait.Receive(t, byConnection.Done())
	for _, s := range []*rpc.Stream{byContext, byForm, byConnection} {
		for range 200 {
			if err = s.Receive(nil); err != nil {
				break
			}
		}
		if err == nil || errors.Is(err, io.EOF) || errors.Is(s.Err(), io.EOF) {
			t.Error(err, s.Err())
		}
	}
}

// Shutdown of either side waits for streams, and no stream begins meanwhile.
func TestShutdownWaitsForStreams(t *testing.T) {
	for name, shutdown := range map[string]func(p *place, c *rpc.Conn) error{
		"client": func(p *place, c *rpc.Conn) error { return c.Shutdown(testwait.Context(p.t)) },
		"server": func(p *place, _ *rpc.Conn) error { return p.server.Shutdown(testwait.Context(p.t)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, &rpc.Options{DrainGrace: time.Millisecond})
			p.stream("Count")
			c := p.dial(&rpc.ConnOptions{StreamMessages: 10})
			const messages = 500
			s := open(t, c, testwait.Context(t), "Count", &request{Count: messages})
			wantMessages(t, s, 0, 1)
			ended := make(chan error, 1)
			go func() { ended <- shutdown(p, c) }()
			testwait.True(t, "no more calls are made", func() bool { return !c.Usable() })
			if _, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, nil); rpc.CodeOf(err) != rpc.Unavailable || !rpc.Refused(err) {
				t.Error(err)
			}
			wantMessages(t, s, 1, messages)
			wantEnd(t, s, 0)
			if err := testwait.Receive(t, ended); err != nil {
				t.Error(err)
			}
			testwait.Receive(t, c.Done())
			wantNothingLeft(t, p, c)
		})
	}
}

// An interceptor of a server runs around the whole stream. What it returns as the body is one more message.
func TestServerInterceptorsOfStreams(t *testing.T) {
	after := make(chan string, 10)
	around := func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
		body, err := next(ctx, c, dst)
		after <- fmt.Sprint(len(body), " ", rpc.CodeOf(err))
		if _, ok := c.Metadata("more"); ok {
			body = append(body, `{"Text":"5"}`...)
		}
		return body, err
	}
	shorter := func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, ok := c.Metadata("short"); ok {
			cancel()
		}
		return next(ctx, c, dst)
	}
	longer := func(ctx context.Context, c *rpc.Call, dst []byte, next rpc.Func) ([]byte, error) {
		return next(context.WithoutCancel(ctx), c, dst)
	}
	p := newPlace(t, &rpc.Options{Interceptors: []rpc.Interceptor{around, longer, shorter}})
	count := p.stream("Count")
	c := p.dial(&rpc.ConnOptions{StreamMessages: 5}) // one more needs no credit
	for _, tt := range []struct {
		key   string
		last  int
		end   rpc.Code
		after string
	}{
		{"none", 5, 0, "0 0"}, {"more", 6, 0, "0 0"}, {"short", 0, rpc.Canceled, "0 2005"},
	} {
		r := &rpc.Request{Method: "Count", Metadata: []rpc.Pair{{Key: tt.key, Value: "1"}}}
		s, err := c.Stream(testwait.Context(t), r, &request{Count: 5})
		if err != nil {
			t.Fatal(err)
		}
		testwait.Receive(t, s.Done())
		wantMessages(t, s, 0, tt.last)
		wantEnd(t, s, tt.end)
		if got := testwait.Receive(t, after); got != tt.after {
			t.Errorf("%s: the interceptor gets %q", tt.key, got)
		}
	}
	for range len(count.sent) {
		<-count.sent
	}
	s := open(t, c, testwait.Context(t), "Count", &request{Count: -1})
	for range 5 {
		testwait.Receive(t, count.sent)
	}
	_ = s.Close() // send sees that, although its context does not
	wantNothingLeft(t, p, c)
}

// An interceptor of a client runs until the call has been sent. It may change the call, make it again if it was not sent, and fail.
func TestClientInterceptorsOfStreams(t *testing.T) {
	p := newPlace(t, nil)
	p.stream("Count")
	fails := errors.New("no")
	done := make(chan error, 1)
	var run rpc.ClientInterceptor
	c := p.dial(&rpc.ConnOptions{Interceptors: []rpc.ClientInterceptor{
		func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			return run(ctx, r, in, out, next)
		},
	}})
	r := &rpc.Request{Method: "Count"}
	for name, tt := range map[string]struct {
		run  rpc.ClientInterceptor
		want error
	}{
		"watches": {func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			err := next(ctx, r, in, out)
			s := out.(*rpc.Stream) //nolint:forcetypeassert,errcheck // what the test is about
			go func() { <-s.Done(); done <- s.Err() }()
			return err
		}, nil},
		"adds metadata": {func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			r.Metadata = append(r.Metadata, rpc.Pair{Key: "key", Value: "value"})
			return next(ctx, r, in, out)
		}, nil},
		"makes it again": {func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			if err := next(ctx, r, func() {}, out); rpc.CodeOf(err) != rpc.BadMessage {
				return errors.New("bad arguments were sent")
			}
			return next(ctx, r, in, out)
		}, nil},
		"makes it twice": {func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			return errors.Join(next(ctx, r, in, out), next(ctx, r, in, out))
		}, &rpc.Error{Code: rpc.Internal}},
		"fails":    {func(context.Context, *rpc.Request, any, any, rpc.DoFunc) error { return fails }, fails},
		"does not": {func(context.Context, *rpc.Request, any, any, rpc.DoFunc) error { return nil }, &rpc.Error{Code: rpc.Internal}},
		"fails late": {func(ctx context.Context, r *rpc.Request, in, out any, next rpc.DoFunc) error {
			return errors.Join(next(ctx, r, in, out), fails)
		}, fails},
	} {
		run = tt.run
		count := 5
		if tt.want != nil {
			count = -1
		}
		s, err := c.Stream(testwait.Context(t), r, &request{Count: count})
		switch {
		case rpc.CodeOf(err) != rpc.CodeOf(tt.want) || (err == nil) != (tt.want == nil):
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		case err == nil:
			wantMessages(t, s, 0, 5)
			wantEnd(t, s, 0)
		}
		if len(r.Metadata) != 0 {
			t.Errorf("%s: the request has changed", name)
		}
		wantNothingLeft(t, p, c)
	}
	if err := testwait.Receive(t, done); err != nil {
		t.Error(err)
	}
}

// wantCancel checks that the next frame cancels a call.
func wantCancel(w *wire, id string) {
	if f := w.receive(); f == nil || f.Kind != frame.Control || string(f.Value("sluice.cancel")) != id {
		w.t.Fatalf("%+v", f)
	}
}

// A client that has canceled a stream before it knew that its server understands that cancels it when the server says so.
func TestStreamOfAnUnknownServer(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{Form: anyForm{frame.Binary}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	// openAndClose opens a stream and closes it, and returns its id.
	openAndClose := func(isKnown bool) string {
		opened := make(chan *rpc.Stream, 1)
		go func() {
			s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, nil)
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
		f := w.receive()
		if f == nil || f.Kind != frame.Call || string(f.Value("sluice.stream")) != "128 262144" || (f.Value("sluice") != nil) == isKnown {
			t.Fatalf("%+v", f)
		}
		s := testwait.Receive(t, opened)
		closed := make(chan struct{})
		go func() { defer close(closed); _ = s.Close() }()
		if isKnown {
			wantCancel(w, fmt.Sprint(f.Sequence))
		}
		testwait.Receive(t, closed)
		return fmt.Sprint(f.Sequence)
	}
	for _, id := range []string{openAndClose(false), openAndClose(false)} {
		w.control("sluice", id)
		wantCancel(w, id)
	}
	openAndClose(true)
	testwait.Return(t, func() { _ = c.Close() })

	p := newPlace(t, nil)
	p.server.Handle("Count", rpc.Method{Protocol: frame.Binary, Stream: func(ctx context.Context, _ *rpc.Call, send func([]byte) error) error {
		<-ctx.Done()
		return send([]byte{0})
	}})
	w = p.dialWire()
	f := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, Kind: frame.Call, Sequence: 7, HeaderSequence: 7}
	f.Add("sluice", "1")
	f.Add("sluice.stream", "1 1")
	w.send(f, "Count", []byte{0})
	if f := w.receive(); f == nil || f.Kind != frame.Control || string(f.Value("sluice")) != "7" {
		t.Fatalf("%+v", f)
	}
	w.control("sluice.cancel", "7")
	testwait.True(t, "the stream has ended", func() bool { s := p.server.Stats(); return s.Pending == 0 && s.Canceled == 1 })
}

// A handler that does not learn from its context that the connection has ended learns it from send.
func TestSendAfterTheConnection(t *testing.T) {
	p := newPlace(t, &rpc.Options{Session: &session.Options{QueueBytes: 1 << 20}})
	result := make(chan error, 1)
	p.server.Handle("Stubborn", rpc.Method{Protocol: frame.Bare, Stream: func(_ context.Context, _ *rpc.Call, send func([]byte) error) error {
		for {
			if err := send([]byte("{}")); err != nil {
				result <- err
				return err
			}
		}
	}})
	c := p.dial(nil)
	s := open(t, c, testwait.Context(t), "Stubborn", nil)
	for range 1000 {
		if err := s.Receive(nil); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Close()
	if err := testwait.Receive(t, result); rpc.CodeOf(err) != rpc.Canceled && rpc.CodeOf(err) != rpc.Lost {
		t.Error(err)
	}
	wantNothingLeft(t, p, c)
}

// A handler of a stream without an end learns that its server stops, and ends the stream in order.
func TestStreamEndsWithServer(t *testing.T) {
	p := newPlace(t, nil)
	rpc.HandleStream(p.server, "Watch", func(ctx context.Context, in *text, send func(*text) error) error {
		if err := send(in); err != nil {
			return err
		}
		select {
		case <-rpc.From(ctx).Stopping():
			return send(&text{"the end"})
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c := p.dial(nil)
	s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Watch"}, &text{"a"})
	if err != nil {
		t.Fatal(err)
	}
	var got text
	if err := s.Receive(&got); err != nil || got.Text != "a" {
		t.Fatal(got, err)
	}
	if err := p.server.Shutdown(testwait.Context(t)); err != nil {
		t.Error(err)
	}
	if err := s.Receive(&got); err != nil || got.Text != "the end" {
		t.Error(got, err)
	}
	if err := s.Receive(&got); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
