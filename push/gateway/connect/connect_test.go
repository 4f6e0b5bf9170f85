package connect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
)

// variant is a protocol and form.
type variant struct {
	name    string
	http2   bool
	text    bool // in base64
	options []connect.ClientOption
	json    bool
}

var variants = []variant{
	{name: "Connect, HTTP/1.1"},
	{name: "Connect, HTTP/2", http2: true},
	{name: "Connect JSON, HTTP/1.1", options: []connect.ClientOption{connect.WithProtoJSON()}, json: true},
	{name: "Connect JSON, HTTP/2", http2: true, options: []connect.ClientOption{connect.WithProtoJSON()}, json: true},
	{name: "gRPC-Web, HTTP/1.1", options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{name: "gRPC-Web, HTTP/2", http2: true, options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{name: "gRPC-Web JSON, HTTP/1.1", options: []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}, json: true},
	{name: "gRPC-Web in text, HTTP/1.1", text: true, options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{name: "gRPC-Web in text, HTTP/2", http2: true, text: true, options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{name: "gRPC-Web JSON in text, HTTP/1.1", text: true, options: []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}, json: true},
	{name: "gRPC, HTTP/2", http2: true, options: []connect.ClientOption{connect.WithGRPC()}},
}

func connectCommand() *clientv1.Command {
	return &clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Name: "test"}}
}

// next returns the next message of a stream.
func next[M any](t *testing.T, s *connect.ServerStreamForClient[M]) *M {
	t.Helper()
	if !s.Receive() {
		t.Fatalf("the stream has ended: %v", s.Err())
	}
	return s.Msg()
}

// TestConsume: replies and pushes in a stream, commands by Send, and the end with its code, in all protocols and forms.
func TestConsume(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, nil)
			client, ctx := n.client(v), testwait.Context(t)
			s, err := client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			defer func() { _ = s.Close() }()
			session := next(t, s).GetConnect()
			if session.GetSession() == "" || session.GetNode() != n.hub.ID() {
				t.Fatalf("got %v", session)
			}
			send := func(secret string) error {
				_, err := client.Send(ctx, connect.NewRequest(&clientv1.SendCommandsRequest{
					Session: secret, Node: session.GetNode(),
					Commands: []*clientv1.Command{{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "a"}}},
				}))
				return err
			}
			must(t, send(session.GetSession()))
			if r := next(t, s); r.GetId() != 2 || r.GetSubscribe() == nil {
				t.Fatalf("got %v", r)
			}
			for i := range 20 {
				n.publish("a", fmt.Sprint(i))
			}
			for i := range 20 {
				p := next(t, s).GetPush()
				if p.GetChannel() != "a" || string(p.GetPub().GetData()) != fmt.Sprint(i) || p.GetPub().GetOffset() != uint64(i+1) {
					t.Errorf("got %v", p)
				}
			}
			if err := send("x"); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("a wrong session: %v", err)
			}
			must(t, n.shutdown(time.Minute))
			if d := next(t, s).GetPush().GetDisconnect(); d.GetCode() != uint32(push.DisconnectShutdown.Code) {
				t.Errorf("got %v", d)
			}
			if s.Receive() {
				t.Errorf("after the end: %v", s.Msg())
			}
			var e *connect.Error
			if !errors.As(s.Err(), &e) || e.Code() != connect.CodeUnavailable || e.Message() != "shutdown" || e.Meta().Get("sluice-disconnect-code") != "3001" {
				t.Errorf("ended with %v, %v", s.Err(), e.Meta())
			}
		})
	}
}

// TestBothWays: commands and replies in one call, where HTTP/2 is spoken.
func TestBothWays(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, nil)
			s := n.client(v).Connect(testwait.Context(t))
			defer func() { _ = s.CloseResponse() }()
			err := s.Send(connectCommand())
			if !v.http2 {
				if _, err := s.Receive(); err == nil {
					t.Error("HTTP/1.1 is not refused")
				}
				return
			}
			must(t, err)
			r, err := s.Receive()
			if err != nil || r.GetConnect().GetClient() == "" {
				t.Fatalf("got %v, %v", r, err)
			}
			must(t, s.Send(&clientv1.Command{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "a"}}))
			r, err = s.Receive()
			if err != nil || r.GetId() != 2 {
				t.Fatalf("got %v, %v", r, err)
			}
			must(t, s.CloseRequest()) // and goes on listening
			n.publish("a", `1`)
			r, err = s.Receive()
			if err != nil || string(r.GetPush().GetPub().GetData()) != "1" {
				t.Fatalf("got %v, %v", r, err)
			}
		})
	}
}

// TestOneWay: the service of Centrifugo.
func TestOneWay(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
				if r.Channel == "secret" {
					return gateway.Permission{}, push.ErrPermissionDenied
				}
				return gateway.Permission{}, nil
			}})
			client, ctx := unistreamconnect.NewCentrifugoUniStreamClient(n.httpClient(v), n.url, v.options...), testwait.Context(t)
			ask := func(channel string) *connect.ServerStreamForClient[unistream.Push] {
				s, err := client.Consume(ctx, connect.NewRequest(&unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{channel: {}}}))
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			s := ask("a")
			if first := next(t, s); first.GetConnect().GetSubs()["a"] == nil {
				t.Errorf("got %v", first)
			}
			n.publish("a", `2`)
			if p := next(t, s); p.GetChannel() != "a" || string(p.GetPub().GetData()) != "2" {
				t.Errorf("got %v", p)
			}
			if s := ask("secret"); s.Receive() || connect.CodeOf(s.Err()) != connect.CodePermissionDenied {
				t.Errorf("got %v, %v", s.Msg(), s.Err())
			}
		})
	}
}

// wantRetry fails the test unless an error says when to call again, for clients of all protocols.
func wantRetry(t *testing.T, err error) {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) || e.Meta().Get("Retry-After") != "1" || e.Meta().Get(clientrpc.PushbackTrailer) != "1000" {
		t.Errorf("%v does not say when to call again", err)
	}
}

// A node that drains, and a connect request or a Send that is refused for now, say when to call again.
func TestRefusedForNow(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			release := make(chan struct{})
			n := newNode(t, &gateway.Options{
				Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
					if token == "busy" {
						return gateway.Identity{}, push.ErrTooManyRequests
					}
					return gateway.Identity{}, nil
				},
				Permit: func(context.Context, *gateway.Identity, *gateway.PermitRequest) (gateway.Permission, error) {
					<-release
					return gateway.Permission{}, nil
				},
			})
			defer close(release)
			client, ctx := n.client(v), testwait.Context(t)
			oneWay := unistreamconnect.NewCentrifugoUniStreamClient(n.httpClient(v), n.url, v.options...)
			busy, err := oneWay.Consume(ctx, connect.NewRequest(&unistream.ConnectRequest{Token: "busy"}))
			must(t, err)
			if busy.Receive() {
				t.Error("the client is connected")
			}
			wantRetry(t, busy.Err())
			_ = busy.Close()
			s, err := client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			told := next(t, s).GetConnect()
			for id := uint32(2); err == nil; id++ {
				_, err = client.Send(ctx, connect.NewRequest(&clientv1.SendCommandsRequest{
					Session: told.GetSession(), Node: told.GetNode(),
					Commands: []*clientv1.Command{{Id: id, Publish: &clientv1.PublishRequest{Channel: "a", Data: []byte("1")}}},
				}))
			}
			wantRetry(t, err)
			_ = s.Close()
			testwait.True(t, "the client has left", func() bool { return n.gateway.Len() == 0 })
			must(t, n.gateway.Drain(ctx, 0))
			s, err = client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			if s.Receive() {
				t.Error("a client is admitted while the node drains")
			}
			wantRetry(t, s.Err())
			_ = s.Close()
		})
	}
}

// TestRefused: what is not admitted or not understood gets an error that says why.
func TestRefused(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{Sessions: 1, MessageBytes: 1024})
			client, ctx := n.client(v), testwait.Context(t)
			large := &clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Data: []byte(`"` + strings.Repeat("x", 4096) + `"`)}}
			s, err := client.Consume(ctx, connect.NewRequest(large))
			must(t, err)
			if s.Receive() || connect.CodeOf(s.Err()) != connect.CodeResourceExhausted {
				t.Errorf("a large command: %v", s.Err())
			}
			_ = s.Close()
			first, err := client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			next(t, first)
			defer func() { _ = first.Close() }()
			s, err = client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			if s.Receive() || connect.CodeOf(s.Err()) != connect.CodeUnavailable || !strings.Contains(s.Err().Error(), "limit of clients") {
				t.Errorf("a second client: %v", s.Err())
			}
			wantRetry(t, s.Err())
			_ = s.Close()
		})
	}
}

// TestPages: preflights, and the origins of requests.
func TestPages(t *testing.T) {
	n := newNode(t, &gateway.Options{Origins: []string{"https://example.org"}})
	ask := func(method, origin string) *http.Response {
		r, err := http.NewRequestWithContext(testwait.Context(t), method, n.url+clientv1connect.ClientSendProcedure, strings.NewReader("{}"))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "connect-protocol-version,content-type,x-grpc-web")
		}
		res, err := n.httpClient(variant{}).Do(r)
		must(t, err)
		defer func() { _ = res.Body.Close() }()
		_, _ = io.Copy(io.Discard, res.Body)
		return res
	}
	res := ask(http.MethodOptions, "https://example.org")
	if h := res.Header; res.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "https://example.org" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "connect-protocol-version") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("the preflight was answered %v", res)
	}
	res = ask(http.MethodPost, "https://example.org")
	if h := res.Header; res.StatusCode != http.StatusBadRequest || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Grpc-Status") {
		t.Errorf("the request was answered %v", res)
	}
	if res := ask(http.MethodPost, "https://example.com"); res.StatusCode != http.StatusForbidden {
		t.Errorf("another origin was answered %v", res)
	}
}

// TestJSON: what a page sends and gets, to the letter.
func TestJSON(t *testing.T) {
	n := newNode(t, nil)
	body := `{"id":1,"connect":{"name":"page","unknown":1}}`
	envelope := string([]byte{0, 0, 0, 0, byte(len(body))})
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, n.url+clientv1connect.ClientConsumeProcedure, strings.NewReader(envelope+body))
	must(t, err)
	r.Header.Set("Content-Type", "application/connect+json")
	res, err := n.httpClient(variant{}).Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	head := make([]byte, 5)
	_, err = io.ReadFull(res.Body, head)
	must(t, err)
	reply := make([]byte, head[4])
	_, err = io.ReadFull(res.Body, reply)
	must(t, err)
	if text := strings.ReplaceAll(string(reply), " ", ""); !strings.HasPrefix(text, `{"id":1,"connect":{"client":"`) {
		t.Errorf("got %s", text)
	}
}

// TestLateWrites: a client counts as too slow whenever the deadline passes, also if the write has no error or has not begun.
func TestLateWrites(t *testing.T) {
	for _, v := range variants {
		if !strings.Contains(v.name, "HTTP/2") {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{WriteTimeout: time.Nanosecond})
			const clients = 50
			for range clients {
				s, err := n.client(v).Consume(testwait.Context(t), connect.NewRequest(connectCommand()))
				if err != nil {
					continue // gRPC says so in the header
				}
				for s.Receive() {
				}
				_ = s.Close()
			}
			testwait.True(t, "all have ended", func() bool { return n.stats().Clients == 0 })
			if got := n.stats().TimedOut; got != clients {
				t.Errorf("%d clients have timed out, want %d: %+v", got, clients, n.stats())
			}
		})
	}
}

// TestStalled: a client that reads nothing is disconnected.
func TestStalled(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{WriteTimeout: 300 * time.Millisecond})
			client, ctx := n.client(v), testwait.Context(t)
			s, err := client.Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			defer func() { _ = s.Close() }()
			session := next(t, s).GetConnect()
			_, err = client.Send(ctx, connect.NewRequest(&clientv1.SendCommandsRequest{
				Session: session.GetSession(), Node: session.GetNode(),
				Commands: []*clientv1.Command{{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "a"}}},
			}))
			must(t, err)
			next(t, s)
			data := `"` + strings.Repeat("x", 60<<10) + `"`
			for n.stats().TimedOut == 0 {
				n.publish("a", data)
			}
		})
	}
}
