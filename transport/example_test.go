package transport_test

import (
	"fmt"
	"io"
	"net"

	"github.com/sluice-push/sluice/transport"
)

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
