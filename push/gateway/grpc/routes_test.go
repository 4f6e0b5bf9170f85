package grpc_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

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
	n := clustered(t, gateway.Options{})
	must(t, n.gateway.Drain(t.Context(), 0))
	ctx, cc := testwait.Context(t), n.dial()
	c, err := clientv1.NewClientClient(cc).Connect(ctx)
	must(t, err)
	_, err = c.Recv()
	wantPushback(t, err, c.Trailer(), codes.Unavailable, "shutting down")
	wantRoutes(t, c.Trailer(), "", "")
	u, err := unistream.NewCentrifugoUniStreamClient(cc).Consume(ctx, &unistream.ConnectRequest{})
	must(t, err)
	_, err = u.Recv()
	wantPushback(t, err, u.Trailer(), codes.Unavailable, "shutting down")
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
