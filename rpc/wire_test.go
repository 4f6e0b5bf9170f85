package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/rpc"
	"github.com/sluice-push/sluice/rpc/frame"
)

// wire is the other end of a connection, frame by frame.
type wire struct {
	t     testing.TB
	conn  net.Conn
	codec *frame.Codec
	in    []byte
	used  int
}

func newWire(t testing.TB, conn net.Conn) *wire {
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: t, conn: conn, codec: frame.New(nil)}
}

// send sends a frame with a method and a body.
func (w *wire) send(f *frame.Frame, method string, body []byte) {
	f.SetMethod(method)
	out, err := f.AppendEncode(nil, body)
	if err == nil {
		_, err = w.conn.Write(out)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// control sends a control frame.
func (w *wire) control(key, value string) {
	f := &frame.Frame{Dialect: frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Binary}, Kind: frame.Control}
	f.Add(key, value)
	w.send(f, "none", []byte{0})
}

// receive returns the next frame, nil at the end of the connection.
func (w *wire) receive() *frame.Frame {
	for {
		w.in = w.in[w.used:]
		w.used = 0
		body, n, err := w.codec.Decode(w.in)
		if err != nil {
			w.t.Error(err)
			return nil
		}
		if n > 0 {
			w.used = n
			f := *w.codec.Frame()
			f.Body = body
			return &f
		}
		chunk := make([]byte, 64<<10)
		n, err = w.conn.Read(chunk)
		if n == 0 {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) && !isReset(err) {
				w.t.Error(err)
			}
			return nil
		}
		w.in = append(w.in, chunk[:n]...)
	}
}

func isReset(err error) bool { return strings.Contains(err.Error(), "reset by peer") }

// dialWire connects to the server.
func (p *place) dialWire() *wire {
	conn, err := (&net.Dialer{}).DialContext(testwait.Context(p.t), "tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	return newWire(p.t, conn)
}

// Clients of every dialect get their answers in it. Clients that cannot tell answers apart get them in the order of their calls.
func TestDialects(t *testing.T) {
	p := newPlace(t, nil)
	for _, protocol := range []frame.Protocol{frame.Binary, frame.Compact, frame.Protobuf} {
		p.server.Handle("Echo", rpc.Method{Protocol: protocol, Func: func(_ context.Context, c *rpc.Call, dst []byte) ([]byte, error) {
			if string(c.Body()) == "\x00" && c.Protocol() == frame.Protobuf {
				return nil, errors.New("no")
			}
			return append(dst, c.Body()...), nil
		}})
	}
	empty := map[frame.Protocol][]byte{frame.Binary: {0}, frame.Compact: {0}, frame.Protobuf: {}, frame.Bare: []byte(`{"Text":"a"}`)}
	for _, d := range []frame.Dialect{
		{Framing: frame.THeader, Protocol: frame.Binary},
		{Framing: frame.THeader, Protocol: frame.Compact},
		{Framing: frame.THeader, Protocol: frame.Binary, Wrapped: true},
		{Framing: frame.Framed, Protocol: frame.Binary},
		{Framing: frame.Framed, Protocol: frame.Compact},
		{Framing: frame.Framed, Protocol: frame.Protobuf},
		{Framing: frame.Unframed, Protocol: frame.Binary},
		{Framing: frame.Unframed, Protocol: frame.Compact},
		{Framing: frame.TTHeader, Protocol: frame.Binary},
		{Framing: frame.TTHeader, Protocol: frame.Protobuf, Wrapped: true},
		{Framing: frame.TTHeader, Protocol: frame.Bare},
	} {
		t.Run(fmt.Sprintf("%v wrapped %t", d, d.Wrapped), func(t *testing.T) {
			w := p.dialWire()
			w.t = t
			const calls = 20
			for i := range int32(calls) {
				f := &frame.Frame{Dialect: d, Kind: frame.Call, Sequence: i + 1}
				if d.Framing == frame.TTHeader {
					f.HeaderSequence = i + 1 // THeader: 0, as Node has it
				}
				w.send(f, "Echo", empty[d.Protocol])
			}
			seen := map[int32]bool{}
			for i := range int32(calls) {
				f := w.receive()
				if f == nil {
					t.Fatal("the connection has ended")
				}
				if f.Dialect != d || f.Kind != frame.Reply || string(f.Body) != string(empty[d.Protocol]) || seen[f.Sequence] {
					t.Errorf("%+v", f)
				}
				if d.Framing != frame.TTHeader && (f.Sequence != i+1 || f.HeaderSequence != 0) {
					t.Errorf("answer %d is the %dth, header %d", f.Sequence, i+1, f.HeaderSequence)
				}
				if n, isFirst := f.Value("sluice"), i == 0; (n != nil) != (isFirst && d.Framing == frame.TTHeader) && d.Framing != frame.TTHeader {
					t.Errorf("answer %d: %q", i, n)
				}
				seen[f.Sequence] = true
			}
			w.send(&frame.Frame{Dialect: d, Kind: frame.Call, Sequence: 99, HeaderSequence: 99}, "Missing", empty[d.Protocol])
			f := w.receive()
			if f == nil || f.Kind != frame.Exception || f.Sequence != 99 {
				t.Fatalf("%+v", f)
			}
			if x, err := frame.ParseException(d.Protocol, f.Body); err != nil || x.Code != frame.UnknownMethod {
				t.Error(x, err)
			}
		})
	}
}

// What clients must not send ends a call or a connection, with a reason, and nothing else.
func TestBadClients(t *testing.T) {
	p := newPlace(t, nil)
	slow := p.block("Slow")
	bare := frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}
	call := func(id int32) *frame.Frame {
		return &frame.Frame{Dialect: bare, Kind: frame.Call, Sequence: id, HeaderSequence: id}
	}
	w := p.dialWire()
	w.send(call(1), "Slow", []byte("{}"))
	testwait.Receive(t, slow.began)
	w.send(call(1), "Echo", []byte("{}")) // the id is taken
	if f := w.receive(); f == nil || f.Kind != frame.Exception || !strings.Contains(string(f.Body), "another call has the sequence id 1") {
		t.Fatalf("%+v", f)
	}
	for _, bad := range []string{"", "x", "-1", "99", "99999999999999999999"} {
		w.control("sluice.cancel", bad) // nothing of that kind is under way
	}
	w.control("unknown", "1")
	w.control("sluice.ping", "text")
	if f := w.receive(); f == nil || f.Kind != frame.Control || string(f.Value("sluice.ping")) != "text" {
		t.Fatalf("%+v", f)
	}
	for _, bad := range []string{"", "x", "-5", "99999999999999"} { // no time-out
		f := call(2)
		f.AddInt(12, bad)
		w.send(f, "Echo", []byte(`{"Text":"a"}`))
		if f := w.receive(); f == nil || f.Kind != frame.Reply {
			t.Fatalf("%q: %+v", bad, f)
		}
	}
	w.control("sluice.cancel", "1")
	testwait.True(t, "the call is canceled", func() bool { s := p.server.Stats(); return s.Canceled == 1 && s.Pending == 0 })

	w.send(&frame.Frame{Dialect: bare, Kind: frame.Reply, Sequence: 1, HeaderSequence: 1}, "Echo", nil)
	if f := w.receive(); f != nil {
		t.Errorf("a client that answers gets %+v", f)
	}
	w = p.dialWire()
	if _, err := io.WriteString(w.conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if f := w.receive(); f != nil {
		t.Errorf("HTTP gets %+v", f)
	}
}

// What servers must not send ends the connection; answers to calls that do not wait are counted.
func TestBadServers(t *testing.T) {
	bare := frame.Dialect{Framing: frame.TTHeader, Protocol: frame.Bare}
	for name, bad := range map[string]func(w *wire, id int32){
		"a call": func(w *wire, id int32) {
			w.send(&frame.Frame{Dialect: bare, Kind: frame.Call, Sequence: id, HeaderSequence: id}, "Echo", nil)
		},
		"other bytes":  func(w *wire, _ int32) { _, _ = io.WriteString(w.conn, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"half a frame": func(w *wire, _ int32) { _, _ = w.conn.Write([]byte{0, 0, 1}); _ = w.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			c, err := rpc.NewConn(t.Context(), here, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := newWire(t, there)
			done := start(c, testwait.Context(t), "Echo", "a")
			w.receive() // the greeting
			f := w.receive()
			if f == nil || f.Kind != frame.Call {
				t.Fatalf("%+v", f)
			}
			reply := &frame.Frame{}
			reply.Answer(f, frame.Reply)
			reply.Sequence, reply.HeaderSequence = 77, 77
			w.send(reply, "Echo", nil) // no call has that id
			testwait.True(t, "the answer is counted", func() bool { return c.Late() == 1 })
			bad(w, f.Sequence)
			if err := testwait.Receive(t, done); rpc.CodeOf(err) != rpc.Lost {
				t.Error(err)
			}
			testwait.Receive(t, c.Done())
		})
	}
}
