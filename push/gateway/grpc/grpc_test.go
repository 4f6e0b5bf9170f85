package grpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// TestConnect: commands and replies in one call.
func TestConnect(t *testing.T) {
	n := newNode(t, nil, nil)
	c := n.subscriber(testwait.Context(t), n.dial(), "a")
	n.publish("a", `{"x":1}`)
	r := receive(t, c)
	if p := r.GetPush(); p.GetChannel() != "a" || string(p.GetPub().GetData()) != `{"x":1}` || p.GetPub().GetOffset() != 1 {
		t.Errorf("got %v", r)
	}
	must(t, c.Send(&clientv1.Command{Id: 3, Publish: &clientv1.PublishRequest{Channel: "a", Data: []byte(`2`)}}))
	var published, pushed bool
	for range 2 { // in any order
		r := receive(t, c)
		published = published || r.GetId() == 3 && r.GetPublish() != nil
		pushed = pushed || string(r.GetPush().GetPub().GetData()) == "2"
	}
	if !published || !pushed {
		t.Errorf("published %v, pushed %v", published, pushed)
	}
	must(t, c.Send(&clientv1.Command{Id: 4, Subscribe: &clientv1.SubscribeRequest{Channel: "none:such"}}))
	if r := receive(t, c); r.GetId() != 4 || r.GetError().GetCode() == 0 {
		t.Errorf("got %v", r)
	}
	if s := n.stats(); s.Clients != 1 || s.Opened != 1 || s.BytesIn == 0 || s.BytesOut == 0 {
		t.Errorf("counted %+v", s)
	}
	n.publish("a", `"`+strings.Repeat("x", 40<<10)+`"`) // small messages and large ones
	if r := receive(t, c); len(r.GetPush().GetPub().GetData()) != 40<<10+2 {
		t.Errorf("got %v", r)
	}
	testwait.True(t, "nothing to be in flight", func() bool { return n.transport.Queued() == 0 })
}

// TestHalfClosed: a client that has nothing more to send goes on listening, and is gone when it cancels.
func TestHalfClosed(t *testing.T) {
	n := newNode(t, nil, nil)
	ctx, cancel := context.WithCancel(testwait.Context(t))
	defer cancel()
	c := n.subscriber(ctx, n.dial(), "a")
	must(t, c.CloseSend())
	n.publish("a", `1`)
	if r := receive(t, c); string(r.GetPush().GetPub().GetData()) != "1" {
		t.Errorf("got %v", r)
	}
	cancel()
	testwait.True(t, "the client to be gone", func() bool { return n.transport.Len() == 0 })
	if s := n.stats(); s.Left != 1 {
		t.Errorf("counted %+v", s)
	}
}

// TestPing: a ping is an empty reply. A client that answers stays; one that does not is told why the call ends.
func TestPing(t *testing.T) {
	n := newNode(t, &gateway.Options{PingInterval: time.Second, PongTimeout: 500 * time.Millisecond}, nil)
	c := n.client(testwait.Context(t), n.dial())
	for i := range 2 {
		if r := receive(t, c); r.String() != "" {
			t.Fatalf("not a ping: %v", r)
		}
		if i == 0 {
			must(t, c.Send(&clientv1.Command{}))
		}
	}
	r := receive(t, c)
	if d := r.GetPush().GetDisconnect(); d.GetCode() != uint32(push.DisconnectNoPong.Code) {
		t.Fatalf("got %v", r)
	}
	_, err := c.Recv()
	if status.Code(err) != codes.Unavailable || c.Trailer().Get("sluice-disconnect-code")[0] != "3012" {
		t.Errorf("ended with %v and %v", err, c.Trailer())
	}
}

// TestDisconnect: the last message is a push, and the status says what the code means.
func TestDisconnect(t *testing.T) {
	for _, tt := range []struct {
		d    push.Disconnect
		want codes.Code
	}{
		{push.DisconnectShutdown, codes.Unavailable},
		{push.DisconnectInvalidToken, codes.Unauthenticated},
		{push.DisconnectBadRequest, codes.InvalidArgument},
		{push.DisconnectForceNoReconnect, codes.FailedPrecondition},
		{push.DisconnectPermissionDenied, codes.PermissionDenied},
		{push.DisconnectConnectionLimit, codes.ResourceExhausted},
		{push.DisconnectNotAvailable, codes.Unimplemented},
	} {
		t.Run(tt.d.Reason, func(t *testing.T) {
			n := newNode(t, nil, nil)
			c := n.client(testwait.Context(t), n.dial())
			for client := range n.transport.Clients() {
				client.Disconnect(tt.d)
			}
			r := receive(t, c)
			if d := r.GetPush().GetDisconnect(); d.GetCode() != uint32(tt.d.Code) || d.GetReason() != tt.d.Reason {
				t.Errorf("got %v", r)
			}
			_, err := c.Recv()
			if s := status.Convert(err); s.Code() != tt.want || s.Message() != tt.d.Reason {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// TestConsume: replies in one call, commands by calls of Send.
func TestConsume(t *testing.T) {
	n := newNode(t, nil, nil)
	client := clientv1.NewClientClient(n.dial())
	ctx := testwait.Context(t)
	c, err := client.Consume(ctx, connectCommand())
	must(t, err)
	session := receive(t, c).GetConnect()
	if session.GetSession() == "" || session.GetNode() != n.hub.ID() {
		t.Fatalf("got %v", session)
	}
	send := func(secret, node string, commands ...*clientv1.Command) error {
		_, err := client.Send(ctx, &clientv1.SendCommandsRequest{Session: secret, Node: node, Commands: commands})
		return err
	}
	subscribe := &clientv1.Command{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "a"}}
	publish := &clientv1.Command{Id: 3, Publish: &clientv1.PublishRequest{Channel: "a", Data: []byte(`1`)}}
	must(t, send(session.GetSession(), session.GetNode(), subscribe, publish))
	var got []string
	for range 3 {
		r := receive(t, c)
		got = append(got, strings.Fields(r.String() + " .")[0])
	}
	slices.Sort(got) // the push and the reply to publish come in any order
	if want := []string{"id:2", "id:3"}; !slices.Equal(got[:2], want) {
		t.Errorf("got %q", got)
	}
	for _, tt := range []struct {
		name, secret, node string
		want               codes.Code
	}{
		{"wrong session", "x" + session.GetSession(), session.GetNode(), codes.NotFound},
		{"wrong node", session.GetSession(), "nowhere", codes.NotFound},
		{"no session", "", session.GetNode(), codes.InvalidArgument},
	} {
		if err := send(tt.secret, tt.node, subscribe); status.Code(err) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestOneWay: a client that only listens, of the service as Centrifugo has it.
func TestOneWay(t *testing.T) {
	n := newNode(t, &gateway.Options{Permit: func(_ context.Context, _ *gateway.Identity, r *gateway.PermitRequest) (gateway.Permission, error) {
		if r.Channel == "secret" {
			return gateway.Permission{}, push.ErrPermissionDenied
		}
		return gateway.Permission{}, nil
	}}, nil)
	n.publish("a", `1`)
	client := unistream.NewCentrifugoUniStreamClient(n.dial())
	ctx := testwait.Context(t)
	c, err := client.Consume(ctx, &unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{"a": {}}})
	must(t, err)
	first, err := c.Recv()
	must(t, err)
	if sub := first.GetConnect().GetSubs()["a"]; sub.GetOffset() != 1 || first.GetConnect().GetClient() == "" {
		t.Errorf("got %v", first)
	}
	n.publish("a", `2`)
	next, err := c.Recv()
	must(t, err)
	if next.GetChannel() != "a" || string(next.GetPub().GetData()) != "2" {
		t.Errorf("got %v", next)
	}
	refused, err := client.Consume(ctx, &unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{"secret": {}}})
	must(t, err)
	if _, err := refused.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ended with %v", err)
	}
}

// TestRequest: Options.Authenticate sees the call as an HTTP request.
func TestRequest(t *testing.T) {
	seen := make(chan *http.Request, 1)
	n := newNode(t, &gateway.Options{Authenticate: func(_ context.Context, _ string, r *http.Request) (gateway.Identity, error) {
		seen <- r
		return gateway.Identity{Info: push.ClientInfo{User: r.Header.Get("X-User")}}, nil
	}}, nil)
	ctx := metadata.AppendToOutgoingContext(testwait.Context(t), "x-user", "u", "x-bin", "\x00")
	n.client(ctx, n.dial())
	r := testwait.Receive(t, seen)
	if r.Method != http.MethodPost || r.URL.Path != "/sluice.client.v1.Client/Connect" || r.Host != n.addr || r.TLS != nil ||
		!strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") || r.Header.Get("X-User") != "u" || r.Header["X-Bin"] != nil {
		t.Errorf("got %+v", r)
	}
}

// TestShutdown: all clients are told, and connections are closed when they have gone.
func TestShutdown(t *testing.T) {
	n := newNode(t, nil, nil)
	ctx, cc := testwait.Context(t), n.dial()
	watch, err := healthv1.NewHealthClient(cc).Watch(ctx, &healthv1.HealthCheckRequest{})
	must(t, err)
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	var clients []clientv1.Client_ConnectClient
	for range 10 {
		clients = append(clients, n.client(ctx, cc))
	}
	must(t, n.shutdown(time.Minute))
	for _, c := range clients {
		if r := receive(t, c); r.GetPush().GetDisconnect().GetCode() != uint32(push.DisconnectShutdown.Code) {
			t.Errorf("got %v", r)
		}
		if _, err := c.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("ended with %v", err)
		}
	}
	if s := n.stats(); s.Disconnected[uint32(push.DisconnectShutdown.Code)] != 10 || s.Clients != 0 {
		t.Errorf("counted %+v", s)
	}
}

// TestOtherServices: health checks and reflection.
func TestOtherServices(t *testing.T) {
	n := newNode(t, nil, nil)
	ctx, cc := testwait.Context(t), n.dial()
	for _, service := range []string{"", "sluice.client.v1.Client", "centrifugal.centrifugo.unistream.CentrifugoUniStream"} {
		r, err := healthv1.NewHealthClient(cc).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
		if err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, r, err)
		}
	}
	info, err := reflectionv1.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
	must(t, err)
	must(t, info.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	r, err := info.Recv()
	must(t, err)
	var names []string
	for _, s := range r.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"sluice.client.v1.Client", "centrifugal.centrifugo.unistream.CentrifugoUniStream", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not in %q", want, names)
		}
	}
	must(t, info.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "sluice.client.v1.Client"},
	}))
	r, err = info.Recv()
	if err != nil || len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v, %v", r, err)
	}
	must(t, info.CloseSend())
	if _, err := info.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
}
