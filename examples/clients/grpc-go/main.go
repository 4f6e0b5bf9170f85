// Command grpc-go is a client of a node over gRPC without an SDK: it subscribes to a channel and prints what is published there.
//
//	grpc-go ADDRESS CHANNEL
//
// ADDRESS is host:port. The program ends with status 1 when the server ends the session.
package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: grpc-go ADDRESS CHANNEL")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "grpc-go:", run(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// run subscribes to a channel and prints publications until the session ends.
func run(address, channel string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := clientv1.NewClientClient(conn).Connect(context.Background())
	if err != nil {
		return err
	}
	for _, command := range []*clientv1.Command{
		{Id: 1, Connect: &clientv1.ConnectRequest{}},
		{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: channel}},
	} {
		if err := session.Send(command); err != nil {
			break // Recv says why
		}
	}
	for {
		reply, err := session.Recv()
		switch pub := reply.GetPush().GetPub(); {
		case err != nil:
			return err
		case reply.GetError() != nil:
			return fmt.Errorf("error %d: %s", reply.GetError().GetCode(), reply.GetError().GetMessage())
		case reply.GetId() == 2:
			_, err = fmt.Println("subscribed to", channel)
		case pub != nil:
			_, err = fmt.Printf("%d %s\n", pub.GetOffset(), pub.GetData())
		case reply.GetId() == 0 && reply.GetPush() == nil: // a ping
			err = session.Send(&clientv1.Command{})
		}
		if err != nil {
			return err
		}
	}
}
