package grpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is a hub and a gateway with the transport under test, on a port of loopback.
type node struct {
	t         testing.TB
	hub       *hub.Hub
	gateway   *gateway.Gateway
	transport *grpc.Transport
	addr      string
	log       *syncBuffer
}

// newNode starts a node that is shut down at the end of the test. wrap may change the listener; nil leaves it.
func newNode(t testing.TB, o *gateway.Options, wrap func(net.Listener) net.Listener) *node {
	t.Helper()
	n := &node{t: t, log: &syncBuffer{}}
	b := memory.New(nil)
	ns := broker.Namespace{Mode: push.Stream, History: push.History{Size: 20_000}, Partitions: 1}
	h, err := hub.New(t.Context(), b, []hub.Namespace{{Namespace: ns}}, nil)
	must(t, err)
	own := gateway.Options{}
	if o != nil {
		own = *o
	}
	own.Logger = slog.New(slog.NewTextHandler(n.log, nil))
	n.hub = h
	n.gateway = gateway.New(h, &own, func(g *gateway.Gateway) gateway.Transport {
		n.transport = grpc.New(g)
		return n.transport
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.addr = l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := n.transport.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = n.shutdown(0)
		testwait.Return(t, serving.Wait)
		must(t, h.Close())
		must(t, b.Close())
	})
	return n
}

// shutdown ends the gateway with some patience.
func (n *node) shutdown(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return n.gateway.Shutdown(ctx)
}

func (n *node) publish(channel, data string) {
	n.t.Helper()
	_, err := n.hub.Publish(testwait.Context(n.t), channel, push.Publication{Data: []byte(data)}, "")
	must(n.t, err)
}

// dial returns a connection of a client.
func (n *node) dial(o ...googlegrpc.DialOption) *googlegrpc.ClientConn {
	n.t.Helper()
	if o == nil {
		o = append(o, googlegrpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	cc, err := googlegrpc.NewClient(n.addr, o...)
	must(n.t, err)
	n.t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// replies is what a client gets.
type replies interface {
	Recv() (*clientv1.Reply, error)
}

// receive returns the next reply.
func receive(t testing.TB, from replies) *clientv1.Reply {
	t.Helper()
	r, err := from.Recv()
	must(t, err)
	return r
}

// connectCommand is the first command of a client.
func connectCommand() *clientv1.Command {
	return &clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{Name: "test"}}
}

// client opens a session in both directions.
func (n *node) client(ctx context.Context, cc *googlegrpc.ClientConn) clientv1.Client_ConnectClient {
	n.t.Helper()
	c, err := clientv1.NewClientClient(cc).Connect(ctx)
	must(n.t, err)
	must(n.t, c.Send(connectCommand()))
	if r := receive(n.t, c); r.GetId() != 1 || r.GetConnect().GetClient() == "" {
		n.t.Fatalf("connecting was answered %v", r)
	}
	return c
}

// subscriber opens a session with a subscription.
func (n *node) subscriber(ctx context.Context, cc *googlegrpc.ClientConn, channel string) clientv1.Client_ConnectClient {
	n.t.Helper()
	c := n.client(ctx, cc)
	must(n.t, c.Send(&clientv1.Command{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: channel}}))
	if r := receive(n.t, c); r.GetId() != 2 || r.GetSubscribe() == nil {
		n.t.Fatalf("subscribing was answered %v", r)
	}
	return c
}

// stats returns the counts of the transport.
func (n *node) stats() gateway.TransportStats { return n.transport.Stats() }

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}
