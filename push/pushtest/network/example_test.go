package network_test

import (
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/sluice-push/sluice/push/pushtest/network"
)

// echo is a server that sends back all bytes.
func echo() (address string, stop func()) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	return ln.Addr().String(), func() {
		_ = ln.Close()
		running.Wait()
	}
}

// A client reaches its server through a phone with a weak signal, and then loses the connection for good without notice to either side.
func Example() {
	server, stop := echo()
	defer stop()
	conditions, err := network.ParseConditions("edge,delay=10ms,jitter=5ms")
	if err != nil {
		panic(err)
	}
	p, err := network.Listen("", server, conditions)
	if err != nil {
		panic(err)
	}
	defer p.Close()

	conn, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	answer := make([]byte, 5)
	_, _ = conn.Write([]byte("hello"))
	_, err = io.ReadFull(conn, answer)
	fmt.Println(string(answer), err)

	fmt.Println(p.HalfOpen(1), "half open")
	_, err = conn.Write([]byte("is anybody there?"))
	fmt.Println("written:", err)
	fmt.Println(p.Conditions())
	// Output:
	// hello <nil>
	// 1 half open
	// written: <nil>
	// delay=10ms,jitter=5ms,down=50kbit,up=50kbit
}
