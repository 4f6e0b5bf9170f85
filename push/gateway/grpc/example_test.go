package grpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/grpc"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// A node whose clients speak gRPC, and a client.
func Example() {
	ctx := context.Background()
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	ns := broker.Namespace{Mode: push.Stream, History: push.History{Size: 100}, Partitions: 1}
	h, err := hub.New(ctx, b, []hub.Namespace{{Namespace: ns}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }()

	var transport *grpc.Transport
	g := gateway.New(h, nil, func(g *gateway.Gateway) gateway.Transport {
		transport = grpc.New(g)
		return transport
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = transport.Serve(l) })
	defer serving.Wait()
	defer func() { _ = g.Shutdown(ctx) }()

	conn, err := googlegrpc.NewClient(l.Addr().String(), googlegrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	session, err := clientv1.NewClientClient(conn).Consume(ctx, &clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := session.Recv()
	fmt.Println(reply.GetId(), reply.GetConnect().GetPing(), err)
	// Output: 1 25 <nil>
}
