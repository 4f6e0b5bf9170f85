package reconnect_test

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// A pool of one session, which logs in whenever it is made, survives its server's goodbye.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) {
			_ = s.Send(fmt.Appendf(nil, "%s, too", msg))
			if string(msg) == "goodbye" {
				s.End(nil, nil)
			}
		},
	}, nil)
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()

	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	lines := make(chan string, 8)
	pool, err := reconnect.New(client, &reconnect.Options{
		Addresses: []string{ln.Addr().String()},
		Handler:   &session.Handler{Message: func(_ *session.Session, msg []byte) { lines <- string(msg) }},
		Resume:    func(_ context.Context, s *session.Session) error { return s.Send([]byte("hello")) },
	})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := pool.Wait(context.Background(), 1); err != nil {
		panic(err)
	}
	fmt.Println(<-lines)
	_ = pool.Send("", []byte("goodbye"))
	fmt.Println(<-lines)
	fmt.Println(<-lines) // of the next session
	// Output:
	// hello, too
	// goodbye, too
	// hello, too
}

// A request is counted while it waits for its answer, so that the session with the fewest gets the next.
func ExamplePool_Acquire() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, msg []byte) { _ = s.Send(msg) },
	}, nil)
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()

	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	pool, err := reconnect.New(client, &reconnect.Options{
		Addresses: []string{ln.Addr().String()}, Sessions: 2, Pick: reconnect.LeastPending, // and messages are received
	})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	ctx := context.Background()
	if err := pool.Wait(ctx, 2); err != nil {
		panic(err)
	}
	first, err := pool.Acquire("")
	if err != nil {
		panic(err)
	}
	defer first.Release()
	second, err := pool.Acquire("")
	if err != nil {
		panic(err)
	}
	defer second.Release()
	_ = second.Session().Send([]byte("answer"))
	msg, _ := second.Session().Receive(ctx)
	fmt.Println(string(msg), first.Session() != second.Session(), pool.Stats().Pending)
	// Output: answer true 2
}
