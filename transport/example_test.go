package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/transport"
)

// A listener with options, and a client.
func Example() {
	ctx := context.Background()
	ln, err := transport.Listen(ctx, "tcp", "127.0.0.1:0", &transport.Options{NotSentLowat: 64 << 10})
	if err != nil {
		panic(err)
	}
	defer ln.Close()

	client, err := transport.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	fmt.Fprintln(client, "hello")
	line, _ := bufio.NewReader(server).ReadString('\n')
	fmt.Print(line, ln.Stats().Accepted)
	// Output:
	// hello
	// 1
}

// A server under test listens in memory.
func ExampleMemoryListener() {
	ln := transport.NewMemory(0)
	defer ln.Close()
	client, err := ln.Dial(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(client, "nobody reads yet") // and yet this returns
	_ = client.Close()

	server, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(server)
	fmt.Println(string(text))
	// Output: nobody reads yet
}

// An event loop takes connections as descriptors; whoever wants to look at one makes a connection of it.
func ExampleListener_AcceptDescriptor() {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln, err := transport.Wrap(tcp, nil)
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	if !ln.Plain() { // not on this system
		fmt.Println("hello")
		return
	}

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(client, "hello\n")
	_ = client.Close()

	d, err := ln.AcceptDescriptor()
	if err != nil {
		panic(err)
	}
	defer d.Close()
	conn, err := transport.Attach(d)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	text, _ := io.ReadAll(conn)
	fmt.Print(string(text))
	// Output: hello
}

// A server that answers whole batches of datagrams: what was read is written back, to whom it came from.
func ExamplePacketConn_ReadBatch() {
	ctx := context.Background()
	server, err := transport.ListenPacket(ctx, "udp", "127.0.0.1:0", &transport.PacketOptions{ReadBuffer: 1 << 20})
	if err != nil {
		panic(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ps := make([]transport.Packet, 64)
		for i := range ps {
			ps[i].Data = make([]byte, 1500)
		}
		for {
			n, err := server.ReadBatch(ps)
			if err != nil {
				return // closed
			}
			_, _ = server.TryWriteBatch(ps[:n]) // whoever misses an answer asks again
		}
	}()

	client, err := transport.DialPacket(ctx, "udp", server.LocalAddr().String(), nil)
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
