package connect_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/clientrpc"
	"github.com/sluice-push/sluice/push/gateway/route"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream"
	"github.com/sluice-push/sluice/push/protocol/protobuf/unistream/unistreamconnect"
)

// directory is a gateway.Routes with two gateways. It allows clients with a user.
type directory struct{}

func (directory) Route(*route.Client, bool) []route.Route {
	return []route.Route{{URL: "wss://a.example.org"}, {URL: "wss://b.example.org"}}
}

func (directory) Allows(c *route.Client) bool { return c.User != "" }

// wantRoutes fails the test unless an error names the gateways.
func wantRoutes(t *testing.T, err error) {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) || e.Code() != connect.CodeUnavailable || e.Meta().Get(clientrpc.RoutesTrailer) != "wss://a.example.org wss://b.example.org" {
		t.Errorf("%v does not name the gateways", err)
	}
}

// A client that is refused for now, does not belong on the node, or is moved reads other gateways in the trailers.
func TestRoutes(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			n := newNode(t, &gateway.Options{Routes: directory{}, Authenticate: func(_ context.Context, token string, _ *http.Request) (gateway.Identity, error) {
				return gateway.Identity{Info: push.ClientInfo{User: token}}, nil
			}})
			ctx := testwait.Context(t)
			wrong, err := unistreamconnect.NewCentrifugoUniStreamClient(n.httpClient(v), n.url, v.options...).Consume(ctx, connect.NewRequest(&unistream.ConnectRequest{}))
			must(t, err)
			if wrong.Receive() {
				t.Error("a client of another node is connected")
			}
			wantRoutes(t, wrong.Err())
			wantRetry(t, wrong.Err())
			_ = wrong.Close()
			s, err := n.client(v).Consume(ctx, connect.NewRequest(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Token: "ann"}}))
			must(t, err)
			if got := string(next(t, s).GetConnect().GetData()); got != `{"sluice":{"routes":["wss://a.example.org","wss://b.example.org"]}}` {
				t.Errorf("it is told %s", got)
			}
			testwait.True(t, "the client is listed", func() bool { return len(slices.Collect(n.gateway.Sessions())) == 1 })
			must(t, n.gateway.Drain(ctx, 0))
			if got := string(next(t, s).GetPush().GetMessage().GetData()); !strings.Contains(got, `"move"`) {
				t.Errorf("it is told %s", got)
			}
			for s.Receive() { // the disconnect
			}
			wantRoutes(t, s.Err())
			_ = s.Close()
			s, err = n.client(v).Consume(ctx, connect.NewRequest(connectCommand()))
			must(t, err)
			if s.Receive() {
				t.Error("a client is admitted while the node drains")
			}
			wantRoutes(t, s.Err())
			wantRetry(t, s.Err())
			_ = s.Close()
		})
	}
}
