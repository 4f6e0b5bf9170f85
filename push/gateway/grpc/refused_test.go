package grpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// wantPushback fails the test unless a call has ended with a status, and with the trailer that says when to call again.
func wantPushback(t *testing.T, err error, trailer metadata.MD, code codes.Code, message string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || !strings.Contains(s.Message(), message) {
		t.Errorf("ended with %v, want %v: %s", err, code, message)
	}
	if got := trailer.Get(clientrpc.PushbackTrailer); len(got) != 1 || got[0] != "1000" {
		t.Errorf("the trailer is %v", trailer)
	}
}

// A client that is not admitted gets a status that says why, and the time after which to call again.
func TestRefused(t *testing.T) {
	full := func(n *node, cc *googlegrpc.ClientConn) { n.client(testwait.Context(n.t), cc) }
	for name, tt := range map[string]struct {
		options gateway.Options
		refuse  func(n *node, cc *googlegrpc.ClientConn)
		message string
	}{
		"full":                 {gateway.Options{Sessions: 1}, full, "limit of clients"},
		"full for the address": {gateway.Options{SessionsPerAddress: 1}, full, "limit of connections"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, &tt.options, nil)
			ctx, cc := testwait.Context(t), n.dial()
			tt.refuse(n, cc)
			c, err := clientv1.NewClientClient(cc).Connect(ctx)
			must(t, err)
			_, err = c.Recv()
			wantPushback(t, err, c.Trailer(), codes.Unavailable, tt.message)
			e, err := clientv1.NewClientClient(cc).Consume(ctx, connectCommand())
			must(t, err)
			_, err = e.Recv()
			wantPushback(t, err, e.Trailer(), codes.Unavailable, tt.message)
			u, err := unistream.NewCentrifugoUniStreamClient(cc).Consume(ctx, &unistream.ConnectRequest{})
			must(t, err)
			_, err = u.Recv()
			wantPushback(t, err, u.Trailer(), codes.Unavailable, tt.message)
		})
	}
}

// What a call says of when to come again: the time that the node gives, a second for other reasons that pass, and nothing for the rest.
func TestPushback(t *testing.T) {
	refused := func(err error) clientrpc.Status {
		s, _ := clientrpc.OfRefused(err)
		return s
	}
	for name, tt := range map[string]struct {
		status clientrpc.Status
		want   string
	}{
		"a place in the queue":      {clientrpc.OfNotAdmitted(&gateway.NotAdmitted{Reason: "too many", Status: 503, Wait: 7 * time.Second}), "7000"},
		"too many checks of tokens": {refused(push.ErrTooManyRequests), "1000"},
		"shutdown":                  {refused(push.DisconnectShutdown), "1000"},
		"no permission":             {refused(push.ErrPermissionDenied), ""},
		"wrong token":               {refused(push.DisconnectInvalidToken), ""},
		"end of a session":          {clientrpc.OfDisconnect(push.DisconnectShutdown), ""},
	} {
		if got := tt.status.Pushback(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A one-way client whose connect request is refused for now is told when to come again.
func TestRefusedOneWay(t *testing.T) {
	n := newNode(t, &gateway.Options{Authenticate: func(context.Context, string, *http.Request) (gateway.Identity, error) {
		return gateway.Identity{}, push.ErrTooManyRequests
	}}, nil)
	c, err := unistream.NewCentrifugoUniStreamClient(n.dial()).Consume(testwait.Context(t), &unistream.ConnectRequest{})
	must(t, err)
	_, err = c.Recv()
	wantPushback(t, err, c.Trailer(), codes.Unavailable, push.ErrTooManyRequests.Message)
}

// A Send to a session for which too many commands wait is told when to come again.
func TestRefusedSend(t *testing.T) {
	release := make(chan struct{})
	n := newNode(t, &gateway.Options{Permit: func(context.Context, *gateway.Identity, *gateway.PermitRequest) (gateway.Permission, error) {
		<-release
		return gateway.Permission{}, nil
	}}, nil)
	defer close(release)
	ctx, client := testwait.Context(t), clientv1.NewClientClient(n.dial())
	c, err := client.Consume(ctx, connectCommand())
	must(t, err)
	told := receive(t, c).GetConnect()
	for id := uint32(2); ; id++ {
		var trailer metadata.MD
		_, err := client.Send(ctx, &clientv1.SendCommandsRequest{
			Session: told.GetSession(), Node: told.GetNode(),
			Commands: []*clientv1.Command{{Id: id, Publish: &clientv1.PublishRequest{Channel: "a", Data: []byte("1")}}},
		}, googlegrpc.Trailer(&trailer))
		if err != nil {
			wantPushback(t, err, trailer, codes.ResourceExhausted, "")
			return
		}
	}
}

// Health checks beyond the bound are told when to come again.
func TestRefusedHealthChecks(t *testing.T) {
	n := newNode(t, nil, nil)
	ctx := testwait.Context(t)
	var cc *googlegrpc.ClientConn
	for i := range grpc.MostOthers + 1 {
		if i%grpc.MostCalls == 0 {
			cc = n.dial()
		}
		c, err := healthv1.NewHealthClient(cc).Watch(ctx, &healthv1.HealthCheckRequest{})
		must(t, err)
		if _, err = c.Recv(); i == grpc.MostOthers {
			wantPushback(t, err, c.Trailer(), codes.ResourceExhausted, "too many calls of health checks")
		} else {
			must(t, err)
		}
	}
}

// The official client follows the trailer if it has a retry policy: it comes again after a second and not after the hour of its own policy.
func TestRetryPolicy(t *testing.T) {
	n := newNode(t, &gateway.Options{Sessions: 1}, nil)
	first, leave := context.WithCancel(testwait.Context(t))
	defer leave()
	n.client(first, n.dial())
	cc := n.dial(googlegrpc.WithTransportCredentials(insecure.NewCredentials()), googlegrpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 5, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]}`))
	c, err := clientv1.NewClientClient(cc).Connect(testwait.Context(t))
	must(t, err)
	must(t, c.Send(connectCommand()))
	connected := make(chan error, 1)
	go func() {
		_, err := c.Recv()
		connected <- err
	}()
	testwait.True(t, "the client is refused", func() bool { return n.gateway.Stats().Refused.Full > 0 })
	leave()
	must(t, testwait.Receive(t, connected))
}
