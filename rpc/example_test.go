package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/sluice-push/sluice/rpc"
)

type greeting struct{ Name string }

func Example() {
	srv := rpc.NewServer(nil)
	rpc.Handle(srv, "Greet", func(_ context.Context, in *greeting) (*string, error) {
		if in.Name == "" {
			return nil, rpc.Errorf(40_001, "a name is missing")
		}
		out := "Hello " + in.Name
		return &out, nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.Serve(ln) }()

	ctx := context.Background()
	conn, err := rpc.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var out string
	err = conn.Call(ctx, "Greet", &greeting{"Ann"}, &out)
	fmt.Println(out, err)
	err = conn.Call(ctx, "Greet", &greeting{}, &out)
	fmt.Println(err, errors.Is(err, &rpc.Error{Code: 40_001}))

	_ = srv.Shutdown(ctx) // the connection ends, too
	<-conn.Done()
	// Output:
	// Hello Ann <nil>
	// rpc: a name is missing (code 40001) true
}

// A method with a stream, of which the caller receives all.
func ExampleHandleStream() {
	srv := rpc.NewServer(nil)
	rpc.HandleStream(srv, "Count", func(_ context.Context, in *int, send func(*int) error) error {
		for i := range *in {
			if err := send(&i); err != nil {
				return err // the caller does not want more
			}
		}
		return nil
	})
	here, there := net.Pipe()
	if err := srv.ServeConn(there); err != nil {
		fmt.Println(err)
		return
	}
	conn, err := rpc.NewConn(context.Background(), here, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := conn.Stream(context.Background(), &rpc.Request{Method: "Count"}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		var n int
		if err = stream.Receive(&n); err != nil {
			break
		}
		fmt.Println(n)
	}
	fmt.Println(err)
	_ = conn.Close()
	_ = srv.Close()
	// Output:
	// 0
	// 1
	// 2
	// EOF
}

// A method with bodies of bytes, which runs where the connection is read, and a Request that is used again and again.
func ExampleMethodOf() {
	srv := rpc.NewServer(nil)
	upper := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) {
		out := []byte(strings.ToUpper(string(*in)))
		return &out, nil
	})
	upper.Inline = true
	srv.Handle("Upper", upper)
	here, there := net.Pipe()
	if err := srv.ServeConn(there); err != nil {
		fmt.Println(err)
		return
	}
	conn, err := rpc.NewConn(context.Background(), here, &rpc.ConnOptions{Form: rpc.Raw})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &rpc.Request{Method: "Upper"}
	for _, text := range []string{"a", "b"} {
		err := conn.Do(context.Background(), request, []byte(text), nil)
		fmt.Printf("%s %v\n", request.Reply(), err)
	}
	_ = srv.Close()
	<-conn.Done()
	// Output:
	// A <nil>
	// B <nil>
}
