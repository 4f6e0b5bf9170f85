package grpc_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
)

// directory is a gateway.Routes with two gateways by user, and one that cannot be in a trailer. It allows clients with a user.
type directory struct{}

func (directory) Route(c *route.Client, _ bool) []route.Route {
	return []route.Route{{URL: "wss://" + c.User + ".example.org"}, {URL: "wss://odd\n.example.org"}, {URL: "wss://b.example.org"}}
}

func (directory) Allows(c *route.Client) bool { return c.User != "" }

// clustered starts a node of a cluster, on which the token of a client is its user.
func clustered(t *testing.T, o gateway.Options) *node {
	t.Helper()
	o.Routes = directory{}
	o.Authenticate = func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
		return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
	}
	return newNode(t, &o, nil)
}

// wantRoutes fails the test unless the trailers of a call name the gateways of a user, and the code with which a session has ended.
func wantRoutes(t *testing.T, trailer metadata.MD, user, code string) {
	t.Helper()
	if got := trailer.Get(clientrpc.RoutesTrailer); !slices.Equal(got, []string{"wss://" + user + ".example.org wss://b.example.org"}) {
		t.Errorf("the routes are %q", got)
	}
	if got := strings.Join(trailer.Get(clientrpc.DisconnectTrailer), ","); got != code {
		t.Errorf("the code is %q, want %q", got, code)
	}
}

// A client that is not admitted reads other gateways in a trailer, beside the time after which to call again.
func TestRoutesOfRefused(t *testing.T) {
	n := clustered(t, gateway.Options{Sessions: 1})
	ctx, cc := testwait.Context(t), n.dial()
	first, err := clientv1.NewClientClient(cc).Connect(ctx)
	must(t, err)
	must(t, first.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Token: "ann"}}))
	receive(t, first)
	c, err := clientv1.NewClientClient(cc).Connect(ctx)
	must(t, err)
	_, err = c.Recv()
	wantPushback(t, err, c.Trailer(), codes.Unavailable, "limit of clients")
	wantRoutes(t, c.Trailer(), "", "")
	u, err := unistream.NewCentrifugoUniStreamClient(cc).Consume(ctx, &unistream.ConnectRequest{})
	must(t, err)
	_, err = u.Recv()
	wantPushback(t, err, u.Trailer(), codes.Unavailable, "limit of clients")
	wantRoutes(t, u.Trailer(), "", "")
}

// So does a client that does not belong on the node.
func TestRoutesOfWrongGateway(t *testing.T) {
	n := clustered(t, gateway.Options{})
	ctx, cc := testwait.Context(t), n.dial()
	u, err := unistream.NewCentrifugoUniStreamClient(cc).Consume(ctx, &unistream.ConnectRequest{})
	must(t, err)
	_, err = u.Recv()
	wantPushback(t, err, u.Trailer(), codes.Unavailable, "wrong gateway")
	wantRoutes(t, u.Trailer(), "", "")
	c, err := clientv1.NewClientClient(cc).Consume(ctx, connectCommand())
	must(t, err)
	if bye := receive(t, c).GetPush().GetDisconnect(); bye.GetCode() != uint32(push.DisconnectWrongGateway.Code) {
		t.Errorf("it is told %v", bye)
	}
	_, err = c.Recv()
	if s := clientrpc.OfDisconnect(push.DisconnectWrongGateway); err == nil || !strings.Contains(err.Error(), s.Text) || s.Code != codes.Unavailable {
		t.Errorf("ended with %v", err)
	}
	wantRoutes(t, c.Trailer(), "", "3101")
}

// A client that is moved, or sent away by a drain, reads them when its call ends; one that is disconnected for another reason does not.
func TestRoutesOfMoved(t *testing.T) {
	n := clustered(t, gateway.Options{})
	ctx, cc := testwait.Context(t), n.dial()
	connect := func(user string) clientv1.Client_ConnectClient {
		c, err := clientv1.NewClientClient(cc).Connect(ctx)
		must(t, err)
		must(t, c.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Token: user}}))
		if got := string(receive(t, c).GetConnect().GetData()); !strings.Contains(got, `{"sluice":{"routes":["wss://`+user+`.example.org"`) {
			t.Errorf("it is told %s", got)
		}
		testwait.True(t, user+" is listed", func() bool {
			return slices.ContainsFunc(slices.Collect(n.gateway.Sessions()), func(s gateway.Session) bool { return s.Client.User == user })
		})
		return c
	}
	ann, bob, eve := connect("ann"), connect("bob"), connect("eve")
	for one := range n.gateway.Sessions() {
		if one.Client.User == "ann" {
			one.Move([]string{"wss://moved.example.org", "wss://b.example.org"}, 0)
		}
	}
	want := func(c clientv1.Client_ConnectClient, user, code string) {
		t.Helper()
		if got := string(receive(t, c).GetPush().GetMessage().GetData()); !strings.Contains(got, `{"sluice":{"move":{"routes":["wss://`+user+`.example.org"`) {
			t.Errorf("it is told %s", got)
		}
		receive(t, c) // the disconnect
		_, err := c.Recv()
		if err == nil {
			t.Error("something follows")
		}
		wantRoutes(t, c.Trailer(), user, code)
	}
	want(ann, "moved", "3100")
	n.gateway.EndClients(push.DisconnectForceReconnect, func(id *gateway.Identity) bool { return id.Info.User == "eve" })
	receive(t, eve)
	if _, err := eve.Recv(); err == nil || len(eve.Trailer().Get(clientrpc.RoutesTrailer)) > 0 {
		t.Errorf("ended with %v, %v", err, eve.Trailer())
	}
	must(t, n.gateway.Drain(t.Context(), 0))
	want(bob, "bob", "3001")
}

// TestDrain: when a drain begins, a client's next call goes to another node over another connection, while the calls that the node has go on until it is
// their turn.
func TestDrain(t *testing.T) {
	n, other := clustered(t, gateway.Options{}), clustered(t, gateway.Options{})
	nodes := manual.NewBuilderWithScheme("nodes")
	nodes.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: n.addr}, {Addr: other.addr}}})
	ctx := testwait.Context(t)
	cc, err := googlegrpc.NewClient("nodes:///", googlegrpc.WithResolvers(nodes), googlegrpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	connect := func() (clientv1.Client_ConnectClient, bool) {
		c, err := clientv1.NewClientClient(cc).Connect(ctx)
		must(t, err)
		_ = c.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Token: "ann"}}) // Recv has the error
		r, err := c.Recv()
		return c, err == nil && r.GetConnect() != nil
	}
	var calls []clientv1.Client_ConnectClient
	for range 2 {
		c, ok := connect()
		if !ok || n.gateway.Len() != len(calls)+1 {
			t.Fatal("not on the first node")
		}
		calls = append(calls, c)
	}
	drainCtx, stop := context.WithCancel(ctx)
	defer stop()
	drained := make(chan error, 1)
	go func() { drained <- n.gateway.Drain(drainCtx, time.Hour) }() // it asks one client at once, and the other one after half an hour
	testwait.True(t, "a new call goes to the other node", func() bool {
		_, ok := connect() // refused until the client has been told
		return ok && other.gateway.Len() == 1
	})
	answered := 0
	for _, c := range calls {
		_ = c.Send(&clientv1.Command{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "ticks"}})
		for r, err := c.Recv(); err == nil; r, err = c.Recv() {
			if r.GetSubscribe() != nil {
				answered++
				break
			}
		}
	}
	if answered != 1 {
		t.Errorf("%d clients of 2 are still served", answered)
	}
	stop()
	if err := testwait.Receive(t, drained); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
