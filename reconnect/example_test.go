package reconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/reconnect"
	"github.com/sluice-push/sluice/session"
)

// A pool of one session, which logs in whenever it is opened, dials again after the server has ended it.
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
	fmt.Println(<-lines) // sent by the next session
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
		Addresses: []string{ln.Addr().String()}, Sessions: 2, Policy: reconnect.LeastPending, // without Handler: messages are received
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

// named starts a server that sends its name to each client.
func named(name string) (srv *session.Server, address string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv = session.NewServer(codec.Line{}, &session.Handler{
		Open: func(s *session.Session) error { return s.Send([]byte(name)) },
	}, nil)
	go func() { _ = srv.Serve(ln) }()
	return srv, ln.Addr().String()
}

// The addresses of a pool change in one step, for example when service discovery finds a new server. The old session is not picked any more, and
// ends when its last lease is released.
func ExamplePool_SetAddresses() {
	first, address := named("first")
	defer first.Close()
	second, found := named("second")
	defer second.Close()
	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	pool, err := reconnect.New(client, &reconnect.Options{Addresses: []string{address}}) // messages are received
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	ctx := context.Background()
	greet := func() {
		if err := pool.Wait(ctx, 1); err != nil {
			panic(err)
		}
		s, err := pool.Pick("")
		if err != nil {
			panic(err)
		}
		msg, _ := s.Receive(ctx)
		fmt.Println(string(msg))
	}

	greet()
	if err := pool.SetAddresses([]string{found}); err != nil {
		panic(err)
	}
	greet()
	// Output:
	// first
	// second
}

// State reports the changes of a slot: here of a slot whose server is down, and which gives up after two attempts.
func ExampleOptions() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_ = ln.Close() // no server listens there now
	client := session.NewClient(codec.Line{}, nil, nil)
	defer client.Close()
	events := make(chan reconnect.Event, 8)
	pool, err := reconnect.New(client, &reconnect.Options{
		Addresses:   []string{ln.Addr().String()},
		MaxAttempts: 2,
		Jitter:      func(time.Duration) time.Duration { return 0 }, // for the example; leave it nil
		State:       func(e reconnect.Event) { events <- e },
	})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	pool.Start()
	for e := range events {
		fmt.Println(e.State, e.Attempt)
		if e.State == reconnect.Failed {
			break
		}
	}
	fmt.Println(errors.Is(pool.Wait(context.Background(), 1), reconnect.ErrGaveUp))
	// Output:
	// connecting 0
	// backing off 1
	// connecting 1
	// failed 2
	// true
}
