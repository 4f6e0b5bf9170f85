package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// request is the argument of the streams of these tests.
type request struct {
	Count int // messages
	Size  int // of the filling of each
}

// streamed is what a handler of a stream does in these tests.
type streamed struct {
	began chan *rpc.Call
	sent  chan struct{} // has an element for each message that was sent
	ended chan error    // has what send returned at the end
}

// stream adds a method that sends as many messages as it is asked for, their numbers with a filling. A negative count is no end.
func (p *place) stream(name string) *streamed {
	s := &streamed{began: make(chan *rpc.Call, 1000), sent: make(chan struct{}, 100_000), ended: make(chan error, 1000)}
	rpc.HandleStream(p.server, name, func(ctx context.Context, in *request, send func(*text) error) (err error) {
		s.began <- rpc.From(ctx)
		if pairs := rpc.From(ctx).AllMetadata(); len(pairs) > 1 || len(pairs) == 1 && strings.HasPrefix(pairs[0].Key, "sluice") {
			return rpc.Errorf(rpc.Internal, "the handler gets the metadata %v", pairs)
		}
		rpc.From(ctx).SetMetadata("count", fmt.Sprint(in.Count))
		for i := 0; i != in.Count && err == nil; i++ {
			if err = send(&text{fmt.Sprint(i, strings.Repeat(" ", in.Size))}); err == nil {
				s.sent <- struct{}{}
			}
		}
		s.ended <- err
		return err
	})
	return s
}

// open opens a stream.
func open(t testing.TB, c *rpc.Conn, ctx context.Context, method string, in any) *rpc.Stream { //nolint:revive // the test comes first, as in other functions
	t.Helper()
	s, err := c.Stream(ctx, &rpc.Request{Method: method}, in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantMessages checks that a stream has the messages from one to another number next.
func wantMessages(t testwait.Test, s *rpc.Stream, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		var out text
		if err := s.Receive(&out); err != nil || strings.TrimRight(out.Text, " ") != fmt.Sprint(i) {
			t.Errorf("message %d is %q, %v", i, out.Text, err)
			t.FailNow()
		}
	}
}

// wantEnd checks that a stream has ended, with an error that has a code, or in order.
func wantEnd(t testwait.Test, s *rpc.Stream, want rpc.Code) {
	t.Helper()
	for range 2 {
		err := s.Receive(nil)
		if want == 0 && err != io.EOF || want != 0 && rpc.CodeOf(err) != want { //nolint:errorlint // io.EOF is not wrapped
			t.Errorf("the stream ends with %v, want the code %d", err, want)
		}
	}
	<-s.Done()
}

// wantNothingLeft checks that no call is under way.
func wantNothingLeft(t testwait.Test, p *place, c *rpc.Conn) {
	t.Helper()
	testwait.True(t, "nothing is under way", func() bool { return c.Pending() == 0 && p.server.Stats().Pending == 0 })
}

func TestStream(t *testing.T) {
	p := newPlace(t, nil)
	p.stream("Count")
	p.server.Handle("Parts", rpc.StreamOf(rpc.Raw, func(_ context.Context, in *[]byte, send func(*[]byte) error) error {
		part := []byte(nil)
		for _, b := range *in {
			if part = append(part[:0], b); b == ' ' {
				part = nil
			}
			if err := send(&part); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, o := range []*rpc.ConnOptions{
		nil, {StreamMessages: 1}, {StreamBytes: 1}, {StreamMessages: -1, StreamBytes: -1}, {Compress: frame.Gzip, CompressFrom: 1},
	} {
		c := p.dial(o)
		for _, in := range []request{{0, 0}, {1, 0}, {1000, 1}, {300, 500}, {3, 300_000}} {
			s := open(t, c, testwait.Context(t), "Count", &in)
			wantMessages(t, s, 0, in.Count)
			wantEnd(t, s, 0)
			if v, ok := s.ReplyMetadata("count"); v != fmt.Sprint(in.Count) || !ok || s.Err() != nil || len(s.AllReplyMetadata()) != 1 {
				t.Errorf("%q, %v", s.AllReplyMetadata(), s.Err())
			}
			_ = s.Close()
			wantEnd(t, s, rpc.Canceled)
		}
		s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Parts", Form: rpc.Raw}, []byte("a b"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"a", "", "b"} {
			var out []byte
			if err := s.Receive(&out); err != nil || string(out) != want {
				t.Errorf("%q, %v", out, err)
			}
		}
		wantEnd(t, s, 0)
		wantNothingLeft(t, p, c)
		if n := c.Late(); n != 0 {
			t.Errorf("%d answers came late", n)
		}
	}
}

// A message that arrives together with the end of its stream is received before the end, whenever Receive looks.
func TestShortStreams(t *testing.T) {
	p := newPlace(t, nil)
	rpc.HandleStream(p.server, "One", func(_ context.Context, _ *request, send func(*text) error) error { return send(&text{"0"}) })
	c := p.dial(nil)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "One"}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				var out text
				first, end := s.Receive(&out), s.Receive(&out)
				if first != nil || out.Text != "0" || !errors.Is(end, io.EOF) {
					t.Errorf("%q, %v, %v", out.Text, first, end)
					return
				}
			}
		})
	}
	testwait.Return(t, group.Wait)
	wantNothingLeft(t, p, c)
}

// The messages before an error are received, and then the error, again and again.
func TestStreamErrors(t *testing.T) {
	p := newPlace(t, &rpc.Options{Frame: &frame.Options{MaxFrame: 1 << 20}})
	ends := map[string]func(send func(*any) error) error{
		"error":    func(func(*any) error) error { return rpc.Errorf(30_000, "no more") },
		"deadline": func(func(*any) error) error { return context.DeadlineExceeded },
		"panic":    func(func(*any) error) error { panic("no more") },
		"goexit":   func(func(*any) error) error { runtime.Goexit(); return nil },
		"large":    func(send func(*any) error) error { var v any = strings.Repeat("x", 2<<20); return send(&v) },
		"encoding": func(send func(*any) error) error { var v any = func() {}; return send(&v) },
		"wrong":    func(send func(*any) error) error { var v any = "no text"; return send(&v) },
	}
	for name, end := range ends {
		rpc.HandleStream(p.server, name, func(_ context.Context, in *request, send func(*any) error) error {
			for i := range in.Count {
				var v any = text{fmt.Sprint(i)}
				if err := send(&v); err != nil {
					return err
				}
			}
			return end(send)
		})
	}
	c := p.dial(nil)
	for name, want := range map[string]rpc.Code{
		"error": 30_000, "deadline": rpc.DeadlineExceeded, "panic": rpc.Internal, "goexit": rpc.Internal, "large": rpc.TooLarge,
		"encoding": rpc.Internal, "none": rpc.UnknownMethod,
	} {
		for _, count := range []int{0, 3} {
			s := open(t, c, testwait.Context(t), name, &request{Count: count})
			if name != "none" {
				wantMessages(t, s, 0, count)
			}
			wantEnd(t, s, want)
			var e *rpc.Error
			if err := s.Err(); !errors.As(err, &e) || !e.Remote || e.Code != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s := open(t, c, testwait.Context(t), "wrong", &request{Count: 1})
	wantMessages(t, s, 0, 1)
	for range 2 {
		if err := s.Receive(&text{}); rpc.CodeOf(err) != rpc.BadMessage {
			t.Error(err)
		}
	}
	s = open(t, c, testwait.Context(t), "error", "no request")
	wantEnd(t, s, rpc.BadMessage)
	wantEcho(t, c, "after all that")
	wantNothingLeft(t, p, c)
}

// A message that is too large is not sent, and the stream goes on.
func TestStreamGoesOnAfterTooLarge(t *testing.T) {
	p := newPlace(t, &rpc.Options{Frame: &frame.Options{MaxFrame: 1000}})
	p.server.Handle("Sizes", rpc.StreamOf(rpc.Raw, func(_ context.Context, _ *[]byte, send func(*[]byte) error) error {
		refused := 0
		for size := range 1200 {
			body := make([]byte, size)
			switch err := send(&body); {
			case rpc.CodeOf(err) == rpc.TooLarge:
				refused++
			case err != nil:
				return err
			}
		}
		return rpc.Errorf(rpc.Code(30_000+refused), "were refused")
	}))
	c := p.dial(&rpc.ConnOptions{Form: rpc.Raw})
	s := open(t, c, testwait.Context(t), "Sizes", nil)
	n := 0
	for ; ; n++ {
		var out []byte
		err := s.Receive(&out)
		if err == nil && len(out) == n {
			continue
		}
		if n < 800 || rpc.CodeOf(err) != rpc.Code(30_000+1200-n) {
			t.Errorf("message %d has %d bytes, %v", n, len(out), err)
		}
		break
	}
}

// Calls and methods of different kinds: what has no stream has one message, and a call that does not ask for a stream is refused.
func TestStreamsAndOtherCalls(t *testing.T) {
	p := newPlace(t, nil)
	p.stream("Count")
	inline := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	inline.Inline = true
	p.server.Handle("Inline", inline)
	c := p.dial(nil)
	for method, in := range map[string]any{"Echo": &text{"0"}, "Inline": &text{"0"}} {
		s := open(t, c, testwait.Context(t), method, in)
		wantMessages(t, s, 0, 1)
		wantEnd(t, s, 0)
	}
	s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Inline", Form: rpc.Raw}, nil) // an empty answer is a message, too
	if err != nil {
		t.Fatal(err)
	}
	out := []byte("old")
	if err := s.Receive(&out); err != nil || len(out) != 0 {
		t.Errorf("%q, %v", out, err)
	}
	wantEnd(t, s, 0)
	if _, err := ask(t, c, "Count", "a"); rpc.CodeOf(err) != rpc.UnknownMethod || !strings.Contains(err.Error(), "stream") {
		t.Error(err)
	}
	if err := c.Send(testwait.Context(t), "Count", &request{Count: 1}); err != nil {
		t.Error(err)
	}
	wantEcho(t, c, "after all that")
	if s := p.server.Stats(); s.Refused != 2 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count", OneWay: true}, nil); rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
	if _, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, func() {}); rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
	wantNothingLeft(t, p, c)
	other := p.dial(&rpc.ConnOptions{Form: anyForm{frame.Binary}, Framing: frame.THeader})
	if _, err := other.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, nil); rpc.CodeOf(err) != rpc.BadMessage {
		t.Error(err)
	}
}

// anyForm has empty bodies in a protocol. It fails to set an error, with that error.
type anyForm struct{ protocol frame.Protocol }

func (f anyForm) Protocol() frame.Protocol               { return f.protocol }
func (anyForm) Append(dst []byte, _ any) ([]byte, error) { return append(dst, 0), nil }
func (anyForm) Parse(_ []byte, v any) error              { err, _ := v.(error); return err }

func TestBadStreamMethods(t *testing.T) {
	one := func(context.Context, *rpc.Call, []byte) ([]byte, error) { return nil, nil }
	many := func(context.Context, *rpc.Call, func([]byte) error) error { return nil }
	for name, m := range map[string]rpc.Method{
		"inline": {Protocol: frame.Bare, Stream: many, Inline: true},
		"both":   {Protocol: frame.Bare, Stream: many, Func: one},
		"none":   {Protocol: frame.Bare},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			rpc.NewServer(nil).Handle("Method", m)
		}()
	}
}

// Messages of several goroutines of a handler arrive whole. When the handler has returned, no more can be sent.
func TestStreamOfManyGoroutines(t *testing.T) {
	p := newPlace(t, &rpc.Options{Executor: &fewTasks{left: 1}})
	late := make(chan func() error, 1)
	rpc.HandleStream(p.server, "Many", func(_ context.Context, _ *request, send func(*text) error) error {
		late <- func() error { return send(&text{"late"}) }
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				for range 100 {
					if err := send(&text{strings.Repeat(fmt.Sprint(i), 100)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		return nil
	})
	c := p.dial(&rpc.ConnOptions{StreamMessages: 3})
	s := open(t, c, testwait.Context(t), "Many", nil)
	counts := map[string]int{}
	for range 400 {
		var out text
		if err := s.Receive(&out); err != nil {
			t.Fatal(err)
		}
		counts[out.Text]++
	}
	wantEnd(t, s, 0)
	for text, n := range counts {
		if n != 100 || len(text) != 100 {
			t.Errorf("%d of %q", n, text)
		}
	}
	wantNothingLeft(t, p, c)
	if err := testwait.Receive(t, late)(); rpc.CodeOf(err) != rpc.Canceled && rpc.CodeOf(err) != rpc.Internal {
		t.Error(err)
	}
	s = open(t, c, testwait.Context(t), "Many", nil) // the executor takes no more
	wantEnd(t, s, rpc.Overloaded)
}

// A goroutine that still sends when its handler returns sends nothing after the end.
func TestSendAfterTheHandler(t *testing.T) {
	p := newPlace(t, nil)
	ended := make(chan error, 1)
	rpc.HandleStream(p.server, "Early", func(_ context.Context, _ *request, send func(*text) error) error {
		begun := make(chan struct{})
		go func() {
			err := send(&text{"0"})
			close(begun)
			for i := 1; err == nil; i++ {
				err = send(&text{fmt.Sprint(i)})
			}
			ended <- err
		}()
		<-begun
		return nil
	})
	c := p.dial(nil)
	for range 300 {
		s := open(t, c, testwait.Context(t), "Early", nil)
		for i := 0; ; i++ {
			var out text
			err := s.Receive(&out)
			if err == nil && out.Text == fmt.Sprint(i) {
				continue
			}
			if i == 0 || !errors.Is(err, io.EOF) {
				t.Errorf("message %d is %q, %v", i, out.Text, err)
			}
			break
		}
		if err := testwait.Receive(t, ended); rpc.CodeOf(err) != rpc.Canceled && rpc.CodeOf(err) != rpc.Internal {
			t.Error(err)
		}
	}
	wantEcho(t, c, "after all that")
	if n := c.Late(); n != 0 {
		t.Errorf("%d messages came after the end", n)
	}
}

// Streams count as calls, on both sides.
func TestStreamsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		server *rpc.Options
		client *rpc.ConnOptions
	}{
		"calls of a connection": {&rpc.Options{MaxCalls: 2}, nil},
		"calls of all":          {&rpc.Options{MaxAllCalls: 2}, nil},
		"calls of the client":   {nil, &rpc.ConnOptions{MaxCalls: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, tt.server)
			count := p.stream("Count")
			c := p.dial(tt.client)
			var streams []*rpc.Stream
			for range 2 {
				streams = append(streams, open(t, c, testwait.Context(t), "Count", &request{Count: -1}))
				testwait.Receive(t, count.began)
			}
			s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, &request{Count: 1})
			if err == nil {
				err = s.Receive(nil)
			}
			if rpc.CodeOf(err) != rpc.Overloaded || !rpc.Refused(err) {
				t.Error(err)
			}
			if _, err := ask(t, c, "Echo", "a"); rpc.CodeOf(err) != rpc.Overloaded {
				t.Error(err)
			}
			for _, s := range streams {
				wantMessages(t, s, 0, 1000)
				_ = s.Close()
				if err := testwait.Receive(t, count.ended); rpc.CodeOf(err) != rpc.Canceled {
					t.Error(err)
				}
			}
			wantNothingLeft(t, p, c)
			wantEcho(t, c, "after all that")
		})
	}
}

// A stream that nothing is received from does not keep its connection from heartbeats.
func TestStreamAndHeartbeats(t *testing.T) {
	p := newPlace(t, nil)
	rpc.HandleStream(p.server, "Silent", func(ctx context.Context, _ *request, _ func(*text) error) error {
		<-ctx.Done()
		return ctx.Err()
	})
	c := p.dial(&rpc.ConnOptions{Heartbeat: -1})
	s := open(t, c, testwait.Context(t), "Silent", nil)
	for i := range 50 {
		wantEcho(t, c, fmt.Sprint(i))
		c.Tick() // there was something, so nothing is asked
		before := c.Received()
		c.Tick()
		testwait.True(t, "the server has answered the heartbeat", func() bool { return c.Received() > before })
	}
	select {
	case <-s.Done():
		t.Error(s.Err())
	default:
	}
	_ = s.Close()
	wantNothingLeft(t, p, c)
}
