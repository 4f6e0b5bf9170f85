package udp_test

import (
	"context"
	"fmt"

	"github.com/sluice-push/sluice/transport/udp"
)

// A server that answers whole batches of datagrams: it writes each datagram back to its sender.
func ExampleConn_ReadBatch() {
	ctx := context.Background()
	server, err := udp.Listen(ctx, "udp", "127.0.0.1:0", &udp.Options{ReadBuffer: 1 << 20})
	if err != nil {
		panic(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ps := make([]udp.Packet, 64)
		for i := range ps {
			ps[i].Data = make([]byte, 1500)
		}
		for {
			n, err := server.ReadBatch(ps)
			if err != nil {
				return // closed
			}
			_, _ = server.TryWriteBatch(ps[:n]) // a client without an answer asks again
		}
	}()

	client, err := udp.Dial(ctx, "udp", server.LocalAddr().String(), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	fmt.Fprint(client, "hello")
	answer := make([]byte, 100)
	n, err := client.Read(answer)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(answer[:n]))
	_ = server.Close()
	<-stopped
	// Output: hello
}
