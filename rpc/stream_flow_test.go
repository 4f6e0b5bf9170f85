package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// What is sent to a caller that does not receive is bounded, in messages and in bytes, and delays nothing else on the connection.
func TestSlowReader(t *testing.T) {
	const size = 1000
	one := len(fmt.Sprintf(`{"Text":"%d%*s"}`, 0, size, "")) // bytes of a message
	for name, tt := range map[string]struct {
		options *rpc.ConnOptions
		waits   int // messages
	}{
		"messages":        {&rpc.ConnOptions{StreamMessages: 10}, 10},
		"bytes":           {&rpc.ConnOptions{StreamBytes: 7 * one}, 7},
		"bytes, not even": {&rpc.ConnOptions{StreamBytes: 6*one + 1}, 7},
		"one":             {&rpc.ConnOptions{StreamMessages: 1, StreamBytes: 1}, 1},
		"defaults":        {nil, 128},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, nil)
			slow, quick := p.stream("Slow"), p.stream("Quick")
			c := p.dial(tt.options)
			const streams = 5
			var waiting []*rpc.Stream
			for range streams {
				waiting = append(waiting, open(t, c, testwait.Context(t), "Slow", &request{Count: 3 * tt.waits, Size: size}))
			}
			for range streams * tt.waits {
				testwait.Receive(t, slow.sent)
			}
			for i := range 3 {
				s := open(t, c, testwait.Context(t), "Quick", &request{Count: 300, Size: size})
				wantMessages(t, s, 0, 300)
				wantEnd(t, s, 0)
				wantEcho(t, c, fmt.Sprint(i))
			}
			if n := len(slow.sent); n != 0 || len(quick.ended) != 3 {
				t.Errorf("%d messages were sent without credit", n)
			}
			for i, s := range waiting {
				if messages, bytes := s.Waiting(); messages != tt.waits || bytes < messages*one || bytes > messages*(one+2) {
					t.Errorf("%d messages wait, %d bytes", messages, bytes)
				}
				if i == 0 {
					_ = s.Close()
					if messages, bytes := s.Waiting(); messages != 0 || bytes != 0 {
						t.Errorf("%d messages wait after Close, %d bytes", messages, bytes)
					}
					continue
				}
				wantMessages(t, s, 0, 3*tt.waits)
				wantEnd(t, s, 0)
			}
			wantNothingLeft(t, p, c)
		})
	}
}

// Streams, and calls with large arguments and results, at the same time on one connection.
func TestStreamsBesideLargeCalls(t *testing.T) {
	p := newPlace(t, nil)
	p.stream("Count")
	c := p.dial(nil)
	large := strings.Repeat("x", 1<<20)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range 2 {
				wantEcho(t, c, large)
			}
		})
		group.Go(func() {
			for range 2 {
				s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, &request{Count: 200, Size: 2000})
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 200 {
					var out text
					if err := s.Receive(&out); err != nil || strings.TrimRight(out.Text, " ") != fmt.Sprint(i) {
						t.Errorf("message %d is %q, %v", i, out.Text, err)
						return
					}
				}
				if err := s.Receive(nil); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			}
		})
	}
	testwait.Return(t, group.Wait)
}

// Servers that break the rules of streams end their connection, with a reason. What comes too late is counted.
func TestBadServersOfStreams(t *testing.T) {
	more := func(d frame.Dialect, id int32) *frame.Frame {
		f := &frame.Frame{Dialect: d, Kind: frame.Reply, Sequence: id, HeaderSequence: id}
		f.Add("sluice.stream", "more")
		return f
	}
	for name, tt := range map[string]struct {
		unary  bool
		bad    func(w *wire, id int32)
		reason string
	}{
		"messages beyond the credit": {false, func(w *wire, id int32) {
			for range 4 {
				w.send(more(bareDialect, id), "Count", []byte("{}"))
			}
		}, "more of a stream than"},
		"bytes beyond the credit": {false, func(w *wire, id int32) {
			for range 2 {
				w.send(more(bareDialect, id), "Count", make([]byte, 1000))
			}
		}, "more of a stream than"},
		"another protocol": {false, func(w *wire, id int32) {
			w.send(more(frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, id), "Count", []byte{0})
		}, "another protocol"},
		"a call with one answer": {true, func(w *wire, id int32) {
			w.send(more(bareDialect, id), "Count", nil)
		}, "did not ask for"},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			c, err := rpc.NewConn(t.Context(), here, &rpc.ConnOptions{StreamMessages: 3, StreamBytes: 1000})
			if err != nil {
				t.Fatal(err)
			}
			w := newWire(t, there)
			done := make(chan error, 1)
			go func() {
				if tt.unary {
					done <- c.Call(testwait.Context(t), "Count", nil, nil)
					return
				}
				s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count"}, nil)
				if err == nil {
					testwait.Hold(t, s.Done())
					err = s.Err()
				}
				done <- err
			}()
			w.receive() // the greeting
			f := w.receive()
			if f == nil || f.Kind != frame.Call {
				t.Fatalf("%+v", f)
			}
			w.send(more(bareDialect, 77), "Count", nil) // no call has that id
			w.control("sluice.credit", "1 1 1")
			w.control("sluice", "none")
			testwait.True(t, "the message is counted", func() bool { return c.Late() == 1 })
			tt.bad(w, f.Sequence)
			if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost || !strings.Contains(err.Error(), tt.reason) {
				t.Error(err)
			}
			testwait.Receive(t, c.Done())
		})
	}
}

// Messages after the end of a stream, and after an error, come too late, and so does another end.
func TestMessagesAfterTheEnd(t *testing.T) {
	here, there := net.Pipe()
	c, err := rpc.NewConn(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, there)
	w.receive() // the greeting
	late := uint64(0)
	for _, kind := range []frame.Kind{frame.Reply, frame.Exception} {
		opened := make(chan *rpc.Stream, 1)
		go func() {
			s, err := c.Stream(testwait.Context(t), &rpc.Request{Method: "Count", Form: rpc.Raw}, nil)
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
		f := w.receive()
		if f == nil || f.Kind != frame.Call {
			t.Fatalf("%+v", f)
		}
		answer := func(kind frame.Kind, value, body string) {
			reply := &frame.Frame{}
			reply.Answer(f, kind)
			reply.Add("sluice.stream", value)
			w.send(reply, "Count", []byte(body))
		}
		x := frame.ApplicationException{Code: 30_000, Message: "no more"}
		answer(frame.Reply, "more", "a")
		answer(kind, "end", string(x.AppendBody(nil, frame.Bare)))
		answer(frame.Reply, "more", "b")
		answer(frame.Reply, "end", "c")
		answer(frame.Exception, "more", "")
		late += 3
		testwait.True(t, "they are counted", func() bool { return c.Late() == late })
		s := <-opened
		var out []byte
		if err := s.Receive(&out); err != nil || string(out) != "a" {
			t.Errorf("%q, %v", out, err)
		}
		want := rpc.Code(0)
		if kind == frame.Exception {
			want = 30_000
		}
		wantEnd(t, s, want)
	}
	if c.Pending() != 0 {
		t.Errorf("%d calls wait", c.Pending())
	}
	testwait.Return(t, func() { _ = c.Close() })
}

// logLines gets what is written to a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// Clients that break the rules of streams end their call or their connection, and nothing else.
func TestBadClientsOfStreams(t *testing.T) {
	lines := make(logLines, 100)
	p := newPlace(t, &rpc.Options{Logger: slog.New(slog.NewTextHandler(lines, nil))})
	count, slow := p.stream("Count"), p.block("Slow")
	call := func(w *wire, id int32, method, credit string) {
		f := &frame.Frame{Dialect: bareDialect, Kind: frame.Call, Sequence: id, HeaderSequence: id}
		f.Add("sluice.stream", credit)
		w.send(f, method, []byte(`{"Count":-1}`))
	}
	w := p.dialWire()
	for _, bad := range []string{"", "1", "a b", "-1 5", "5 -1", "1 2 3", "1  2", " 1 2", "+1 2", "1073741825 1", "1 1073741825", "99999999999999999999 1"} {
		call(w, 1, "Count", bad)
		f := w.receive()
		if f == nil || f.Kind != frame.Exception {
			t.Fatalf("%q: %+v", bad, f)
		}
		if x, err := frame.ParseException(frame.Bare, f.Body); err != nil || rpc.Code(x.Code) != rpc.BadMessage {
			t.Errorf("%q: %v, %v", bad, x, err)
		}
	}
	call(w, 1, "Count", "2 1000")
	testwait.Receive(t, count.began)
	for _, other := range []string{"99 1 1", "-1 1 1", "0 0 0"} { // such streams may have ended
		w.control("sluice.credit", other)
	}
	for i := range 2 {
		if f := w.receive(); f == nil || f.Kind != frame.Reply || string(f.Body) != fmt.Sprintf(`{"Text":"%d"}`, i) {
			t.Fatalf("%+v", f)
		}
	}
	w.control("sluice.credit", "1 0 0")
	w.control("sluice.credit", "1 1 0")
	if f := w.receive(); f == nil || string(f.Value("sluice.stream")) != "more" || string(f.Body) != `{"Text":"2"}` {
		t.Fatalf("%+v", f)
	}
	call(w, 1, "Count", "1 1") // the id is taken
	if f := w.receive(); f == nil || f.Kind != frame.Exception {
		t.Fatalf("%+v", f)
	}
	w.control("sluice.cancel", "1")
	testwait.True(t, "the stream is canceled", func() bool { return p.server.Stats().Pending == 0 })

	for bad, reason := range map[string]string{
		"": "bad credit", "1": "bad credit", "1 1": "bad credit", "x 1 1": "bad credit", "1 -1 1": "bad credit", "1 1 -1": "bad credit",
		"1 1073741825 1": "bad credit", "1 1 1073741825": "bad credit", "1 1 1 1": "bad credit", "1 1 99999999999999999999": "bad credit",
		"1 1073741824 0;1 1 0": "too much credit", "1 0 1073741824;1 0 100": "too much credit", "2 1 1": "no stream",
	} {
		w := p.dialWire()
		call(w, 1, "Count", "1 10")
		testwait.Receive(t, count.began)
		call(w, 2, "Slow", "1 1")
		testwait.Receive(t, slow.began)
		if f := w.receive(); f == nil || f.Kind != frame.Reply {
			t.Fatalf("%+v", f)
		}
		for _, one := range strings.Split(bad, ";") {
			w.control("sluice.credit", one)
		}
		if f := w.receive(); f != nil {
			t.Errorf("credit %q is followed by %+v", bad, f)
		}
		if line := testwait.Receive(t, lines); !strings.Contains(line, reason) {
			t.Errorf("credit %q: %q is logged", bad, line)
		}
		testwait.True(t, "nothing is under way", func() bool { return p.server.Stats().Pending == 0 })
	}
	wantEcho(t, p.dial(nil), "after all that")
}

// Clients of all dialects that do not ask for a stream, or cannot have one, are told that.
func TestStreamsInDialects(t *testing.T) {
	p := newPlace(t, nil)
	many := func(_ context.Context, _ *rpc.Call, send func([]byte) error) error { return send([]byte{0}) }
	for _, protocol := range []frame.Protocol{frame.Binary, frame.Compact, frame.Protobuf, frame.Bare} {
		p.server.Handle("Many", rpc.Method{Protocol: protocol, Stream: many})
	}
	for _, d := range []frame.Dialect{
		{Framing: frame.THeader, Protocol: frame.Binary},
		{Framing: frame.THeader, Protocol: frame.Compact},
		{Framing: frame.Framed, Protocol: frame.Binary},
		{Framing: frame.Framed, Protocol: frame.Protobuf},
		{Framing: frame.Unframed, Protocol: frame.Compact},
		{Framing: frame.TTHeader, Protocol: frame.Binary},
		{Framing: frame.TTHeader, Protocol: frame.Compact},
		{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true},
		{Framing: frame.TTHeader, Protocol: frame.Bare},
	} {
		t.Run(fmt.Sprintf("%v wrapped %t", d, d.Wrapped), func(t *testing.T) {
			w := p.dialWire()
			w.t = t
			for id, asks := range []bool{false, true} {
				f := &frame.Frame{Dialect: d, Kind: frame.Call, Sequence: int32(id) + 1}
				if d.Framing == frame.TTHeader {
					f.HeaderSequence = f.Sequence
				}
				if d.Framing.HasHeader() && asks {
					f.Add("sluice.stream", "10 10")
				}
				w.send(f, "Many", []byte{0})
				answer := w.receive()
				if d.Framing == frame.TTHeader && asks {
					if answer == nil || answer.Kind != frame.Reply || answer.Dialect != d || string(answer.Value("sluice.stream")) != "more" {
						t.Fatalf("%+v", answer)
					}
					answer = w.receive()
					if answer == nil || answer.Kind != frame.Reply || answer.Dialect != d || string(answer.Value("sluice.stream")) != "end" {
						t.Fatalf("%+v", answer)
					}
					continue
				}
				if answer == nil || answer.Kind != frame.Exception || answer.Sequence != f.Sequence {
					t.Fatalf("%+v", answer)
				}
				if x, err := frame.ParseException(d.Protocol, answer.Body); err != nil || x.Code != frame.UnknownMethod || !strings.Contains(x.Message, "stream") {
					t.Error(x, err)
				}
			}
		})
	}
}
