package grpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	grpcclients "github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/gateway/outbox"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// TestStalled: a client that reads nothing is disconnected, and what is held for it meanwhile is bounded. When its time to read the rest is over,
// its connection is closed.
func TestStalled(t *testing.T) {
	n := newNode(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond, Linger: 300 * time.Millisecond}, nil)
	ctx := testwait.Context(t)
	// A connection with small windows, so that little is on its way.
	cc := n.dial(googlegrpc.WithTransportCredentials(insecure.NewCredentials()),
		googlegrpc.WithStaticStreamWindowSize(64<<10), googlegrpc.WithStaticConnWindowSize(1<<20))
	reads := n.subscriber(ctx, cc, "b") // on the same connection
	n.subscriber(ctx, cc, "a")          // and never reads again
	data := `"` + strings.Repeat("x", 8<<10) + `"`
	most, published := 0, 0
	for n.stats().TimedOut == 0 {
		if published < 100 {
			n.publish("a", data)
			published++
		}
		most = max(most, n.transport.Queued())
	}
	// The outbox, grpc-go's quota, and a frame and a message beyond each.
	if limit := 2*outbox.Limit + 2*(32<<10) + 2*len(data); most > limit {
		t.Errorf("%d bytes are held, at most %d should be", most, limit)
	}
	n.publish("b", `1`)
	if r := receive(t, reads); string(r.GetPush().GetPub().GetData()) != "1" {
		t.Errorf("the other client got %v", r)
	}
	for { // the connection is closed
		if _, err := reads.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("ended with %v", err)
			}
			break
		}
	}
}

// TestReadsLate: a client that reads the rest after its call has ended keeps its connection.
func TestReadsLate(t *testing.T) {
	n := newNode(t, &gateway.Options{Linger: time.Hour}, nil)
	ctx, cc := testwait.Context(t), n.dial()
	other := n.subscriber(ctx, cc, "b")
	c := n.subscriber(ctx, cc, "a")
	for range 20 {
		n.publish("a", `"`+strings.Repeat("x", 8<<10)+`"`)
	}
	for client := range n.transport.Clients() {
		client.Disconnect(gateway.DisconnectFor(errors.New("for the test")))
	}
	last := &clientv1.Reply{}
	for {
		r, err := c.Recv()
		if err != nil {
			break
		}
		last = r
	}
	if last.GetPush().GetDisconnect().GetCode() != 3004 {
		t.Errorf("the last message is %v", last)
	}
	if r := receive(t, other); r.GetPush().GetDisconnect() == nil {
		t.Errorf("got %v", r)
	}
	n.client(ctx, cc) // on the same connection
}

// TestOversize: a command that is too large ends the call with a reason.
func TestOversize(t *testing.T) {
	n := newNode(t, &gateway.Options{MessageBytes: 1024}, nil)
	c := n.client(testwait.Context(t), n.dial())
	data := []byte(`"` + strings.Repeat("x", 2048) + `"`)
	must(t, c.Send(&clientv1.Command{Id: 2, Publish: &clientv1.PublishRequest{Channel: "a", Data: data}}))
	if _, err := c.Recv(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("ended with %v", err)
	}
	testwait.True(t, "the end to be counted", func() bool { return n.stats().Disconnected[3501] == 1 })
}

// TestGarbage: connections and calls of what is no gRPC end, and do not disturb others.
func TestGarbage(t *testing.T) {
	n := newNode(t, nil, nil)
	for name, text := range map[string]string{
		"HTTP":            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"no settings":     http2.ClientPreface + "xxxxxxxxxxxxxxxxxxxxxxxxx",
		"a longer length": http2.ClientPreface + "\xff\xff\xff\x04\x00\x00\x00\x00\x00",
	} {
		conn, err := net.Dial("tcp", n.addr)
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, text)
		must(t, err)
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close()
	}
	for name, message := range map[string][]byte{
		"no command":  []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"no Protobuf": bytes.Repeat([]byte{7}, 100),
	} {
		p := n.peer()
		p.call(1, "/sluice.client.v1.Client/Connect")
		p.data(1, message)
		if got := p.trailer(1); got["grpc-status"] != fmt.Sprint(int(codes.InvalidArgument)) || got["sluice-disconnect-code"] != "3501" {
			t.Errorf("%s: %v", name, got)
		}
	}
	n.client(testwait.Context(t), n.dial())
}

// TestStreams: a connection has 100 calls, and the next one is refused.
func TestStreams(t *testing.T) {
	n := newNode(t, nil, nil)
	p := n.peer()
	for i := range uint32(100) {
		p.call(2*i+1, "/sluice.client.v1.Client/Connect")
	}
	testwait.True(t, "100 clients", func() bool { return n.transport.Len() == 100 })
	p.call(201, "/sluice.client.v1.Client/Connect")
	if f := p.wait(func(f http2.Frame) bool { return f.Header().StreamID == 201 }); f.Header().Type != http2.FrameRSTStream {
		t.Errorf("got %v", f)
	}
	_ = p.conn.Close()
	testwait.True(t, "no clients", func() bool { return n.transport.Len() == 0 })
}

// TestPingFlood: a connection that pings without end is closed.
func TestPingFlood(t *testing.T) {
	n := newNode(t, nil, nil)
	p := n.peer()
	for range 10 {
		_ = p.framer.WritePing(false, [8]byte{1}) // the connection may be closed by then
	}
	f := p.wait(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway })
	if away, ok := f.(*http2.GoAwayFrame); !ok || away.ErrCode != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("got %v", f)
	}
}

// TestSilent: a client that does not connect in time is disconnected, and so is one that sends half of a message.
func TestSilent(t *testing.T) {
	n := newNode(t, &gateway.Options{ConnectTimeout: 300 * time.Millisecond, CommandTimeout: 300 * time.Millisecond}, nil)
	for i, method := range []string{
		"/sluice.client.v1.Client/Connect", "/sluice.client.v1.Client/Consume", "/sluice.client.v1.Client/Send",
		"/centrifugal.centrifugo.unistream.CentrifugoUniStream/Consume",
	} {
		p := n.peer()
		p.call(1, method)
		must(t, p.framer.WriteData(1, false, []byte{0, 0, 0, 0, 9, 1}))
		want := codes.FailedPrecondition // stale
		if i >= 2 {
			want = codes.Canceled
		}
		if got := p.trailer(1)["grpc-status"]; got != fmt.Sprint(int(want)) && got != fmt.Sprint(int(codes.DeadlineExceeded)) {
			t.Errorf("%s: status %s", method, got)
		}
	}
}

// peer is a client that writes frames of HTTP/2 as the test says.
type peer struct {
	t       testing.TB
	conn    net.Conn
	framer  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
}

func (n *node) peer() *peer {
	t := n.t
	conn, err := net.Dial("tcp", n.addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	must(t, err)
	p := &peer{t: t, conn: conn, framer: http2.NewFramer(conn, conn)}
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.encoder = hpack.NewEncoder(&p.headers)
	must(t, p.framer.WriteSettings())
	return p
}

// call begins a call.
func (p *peer) call(stream uint32, method string) {
	p.t.Helper()
	p.headers.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "a"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		must(p.t, p.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	must(p.t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.headers.Bytes(), EndHeaders: true}))
}

// data sends a message.
func (p *peer) data(stream uint32, message []byte) {
	p.t.Helper()
	must(p.t, p.framer.WriteData(stream, false, append([]byte{0, 0, 0, 0, byte(len(message))}, message...)))
}

// wait returns the first frame that is wanted.
func (p *peer) wait(want func(f http2.Frame) bool) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.framer.ReadFrame()
		must(p.t, err)
		if want(f) {
			return f
		}
	}
}

// trailer returns the fields with which a call ends.
func (p *peer) trailer(stream uint32) map[string]string {
	p.t.Helper()
	f := p.wait(func(f http2.Frame) bool {
		h, ok := f.(*http2.MetaHeadersFrame)
		return ok && h.StreamID == stream && h.StreamEnded()
	})
	fields := map[string]string{}
	h, _ := f.(*http2.MetaHeadersFrame)
	for _, field := range h.Fields {
		fields[field.Name] = field.Value
	}
	return fields
}

// TestReset: a client that resets calls as fast as it makes them has no more of them carried out at a time than one that waits for their end.
func TestReset(t *testing.T) {
	var now, most, all atomic.Int64
	gate := make(chan struct{})
	n := newNode(t, &gateway.Options{CommandTimeout: time.Hour, Authenticate: func(ctx context.Context, _ string, _ *http.Request) (gateway.Identity, error) {
		all.Add(1)
		for running := now.Add(1); ; {
			if before := most.Load(); running <= before || most.CompareAndSwap(before, running) {
				break
			}
		}
		defer now.Add(-1)
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return gateway.Identity{}, nil
	}}, nil)
	p := n.peer()
	const calls = 300
	for i := range uint32(calls) {
		id := 1 + 2*i
		p.call(id, "/sluice.client.v1.Client/Connect")
		p.data(id, []byte{8, 1, 0x22, 0}) // id 1, connect
		testwait.True(t, "the command is carried out, or has to wait", func() bool { return all.Load() > int64(i) || now.Load() >= grpcclients.MostCalls })
		must(t, p.framer.WriteRSTStream(id, http2.ErrCodeCancel))
	}
	close(gate)
	must(t, p.framer.WritePing(false, [8]byte{1}))
	p.wait(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing })
	if got := most.Load(); got > grpcclients.MostCalls {
		t.Errorf("%d commands were carried out at a time", got)
	}
	_ = p.conn.Close()
	testwait.True(t, "no clients", func() bool { return n.transport.Len() == 0 })
}

// TestTinyWindow: a client that lets the server send one byte at a time, and few of them, is given up as one that reads nothing. What is held for it is
// bounded, and others get all meanwhile.
func TestTinyWindow(t *testing.T) {
	n := newNode(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond, Linger: 300 * time.Millisecond}, nil)
	other := n.subscriber(testwait.Context(t), n.dial(), "a")
	p := n.peer()
	must(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
	p.call(1, "/sluice.client.v1.Client/Connect")
	p.data(1, []byte{8, 1, 0x22, 0})               // id 1, connect
	p.data(1, []byte{8, 2, 0x2a, 3, 0x0a, 1, 'a'}) // id 2, subscribe to a
	received := 0
	bytes := make(chan int, 1)
	go func() {
		for {
			f, err := p.framer.ReadFrame()
			if err != nil {
				close(bytes)
				return
			}
			if f, ok := f.(*http2.DataFrame); ok {
				if received += len(f.Data()); received == 100 {
					bytes <- received
				}
				if received < 2000 {
					_ = p.framer.WriteWindowUpdate(1, 1) // fails when the connection is closed, and then so does reading
				}
			}
		}
	}()
	testwait.Receive(t, bytes)
	data := `"` + strings.Repeat("x", 8<<10) + `"`
	most := 0
	for range 100 {
		n.publish("a", data)
		if r := receive(t, other); string(r.GetPush().GetPub().GetData()) != data {
			t.Fatalf("the other client got %v", r)
		}
		most = max(most, n.transport.Queued())
	}
	if limit := 2*outbox.Limit + 2*(32<<10) + 2*len(data); most > limit { // as in TestStalled
		t.Errorf("%d bytes are held, at most %d should be", most, limit)
	}
	testwait.True(t, "the end is counted", func() bool { return n.stats().TimedOut == 1 && n.transport.Len() == 1 })
	if _, isOpen := <-bytes; isOpen {
		t.Error("the connection is open")
	}
}
