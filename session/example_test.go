package session_test

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport/udp"
)

// The server has a session for each peer that sends datagrams; the client dials one.
func ExampleServer_ServePacket() {
	ctx := context.Background()
	pc, err := udp.Listen(ctx, "udp", "127.0.0.1:0", nil)
	if err != nil {
		panic(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	served := make(chan error)
	go func() { served <- srv.ServePacket(pc) }()

	s, err := session.Dial(ctx, "udp", pc.LocalAddr().String(), codec.Line{}, nil)
	if err != nil {
		panic(err)
	}
	_ = s.Send([]byte("hello"))
	msg, err := s.Receive(ctx)
	fmt.Println(string(msg), err)
	s.Close()
	_ = srv.Close()
	fmt.Println(<-served)
	// Output:
	// hello <nil>
	// session: server closed
}

// Two lines make a server. This one sends every line back.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	served := make(chan error)
	go func() { served <- srv.Serve(ln) }()

	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(conn, "hello")
	fmt.Fprintln(conn, "world")
	lines := bufio.NewScanner(conn)
	for range 2 {
		lines.Scan()
		fmt.Println(lines.Text())
	}
	_ = conn.Close()
	_ = srv.Close()
	fmt.Println(<-served)
	// Output:
	// hello
	// world
	// session: server closed
}

// A client asks for its messages in a loop.
func ExampleDial() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Open: func(s *session.Session) error {
			for _, word := range []string{"ready", "steady", "go"} {
				_ = s.Send([]byte(word))
			}
			s.End(nil, nil)
			return nil
		},
	}, nil)
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()

	ctx := context.Background()
	s, err := session.Dial(ctx, "tcp", ln.Addr().String(), codec.Line{}, nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	for msg := range s.Messages(ctx, &err) {
		fmt.Println(string(msg))
	}
	if err != nil {
		panic(err)
	}
	// Output:
	// ready
	// steady
	// go
}

// The state of a session has a type, and each function gets it.
func ExampleTyped() {
	type counter struct{ messages int }
	h := session.Typed[*counter]{
		Open: func(*session.Session) (*counter, error) { return new(counter), nil },
		Message: func(s *session.Session, c *counter, msg []byte) {
			c.messages++
			_ = s.Send(fmt.Appendf(nil, "%d: %s", c.messages, msg))
		},
	}
	srv := session.NewServer(codec.Line{}, h.Handler(), nil)
	defer srv.Close()

	client, server := net.Pipe()
	if _, err := srv.ServeConn(server, nil); err != nil {
		panic(err)
	}
	go fmt.Fprint(client, "hello\nworld\n")
	lines := bufio.NewScanner(client)
	for range 2 {
		lines.Scan()
		fmt.Println(lines.Text())
	}
	_ = client.Close()
	// Output:
	// 1: hello
	// 2: world
}
