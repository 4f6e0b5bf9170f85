package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/sluice-push/sluice/rpc"
)

// serve is a process: the server of calls, or a plain proxy.
func serve(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	at := flags.String("listen", "", "where")
	proxy := flags.String("proxy", "", "which proxy, io.Copy or copy; a server when empty")
	to := flags.String("to", "", "the server of a proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	network, address := split(*at)
	ln, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "listening on %v\n", ln.Addr())
	switch *proxy {
	case "":
		err = answer(ctx, ln)
	case "io.Copy":
		err = forward(ctx, ln, *to, func(dst, src net.Conn) { _, _ = io.Copy(dst, src) })
	case "copy":
		err = forward(ctx, ln, *to, func(dst, src net.Conn) {
			// Without the methods with which io.Copy splices.
			_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
		})
	default:
		err = fmt.Errorf("there is no proxy %q", *proxy)
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// split returns the network and the address of unix:PATH or HOST:PORT.
func split(where string) (network, address string) {
	if path, ok := strings.CutPrefix(where, "unix:"); ok {
		return "unix", path
	}
	return "tcp", where
}

// answer is the server: bodies come back.
func answer(ctx context.Context, ln net.Listener) error {
	srv := rpc.NewServer(&rpc.Options{MaxBytes: -1})
	echo := rpc.MethodOf(rpc.Raw, func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil })
	echo.Inline = true
	srv.Handle("Echo", echo)
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	return srv.Serve(ln)
}

// forward is a proxy with two goroutines for each connection.
func forward(ctx context.Context, ln net.Listener, to string, move func(dst, src net.Conn)) error {
	network, address := split(to)
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var links sync.WaitGroup
	defer links.Wait()
	for {
		client, err := ln.Accept()
		if err != nil {
			return err
		}
		server, err := net.Dial(network, address)
		if err != nil {
			return errors.Join(err, client.Close())
		}
		end := func() {
			_ = client.Close()
			_ = server.Close()
		}
		stop := context.AfterFunc(ctx, end)
		links.Go(func() {
			defer stop()
			defer end()
			move(server, client)
		})
		links.Go(func() {
			defer end()
			move(client, server)
		})
	}
}
