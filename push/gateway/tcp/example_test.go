package tcp_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// A node in one process, and a client that connects and asks for an empty reply.
func Example() {
	ctx := context.Background()
	b := memory.New(nil)
	defer func() { _ = b.Close() }()
	news := hub.Namespace{Namespace: broker.Namespace{Name: "news", Mode: push.Stream, History: push.History{Size: 100}}}
	h, err := hub.New(ctx, b, []hub.Namespace{news}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }()
	var clients *tcp.Transport
	g := gateway.New(h, nil, func(g *gateway.Gateway) gateway.Transport {
		clients = tcp.New(g, nil)
		return clients
	})
	defer func() { _ = g.Shutdown(ctx) }()
	l, err := tcp.Listen(ctx, "127.0.0.1:0", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = clients.Serve(l) }() // until Shutdown

	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("\x04\x08\x01\x22\x00" + "\x04\x08\x02\x5a\x00")) // id 1: connect, id 2: ping
	in := bufio.NewReader(conn)
	for range 2 {
		size, err := binary.ReadUvarint(in)
		if err != nil {
			fmt.Println(err)
			return
		}
		message := make([]byte, size)
		var r protocol.Reply
		if _, err = io.ReadFull(in, message); err == nil {
			err = protobuf.DecodeReply(message, &r)
		}
		fmt.Println(r.ID, r.Kind, err)
	}
	// Output:
	// 1 connect <nil>
	// 2 ping <nil>
}
