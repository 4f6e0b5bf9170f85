// Command sidecar is a proxy beside a program that makes or answers calls. It forwards frames of package rpc/frame between its clients and one
// server, in both directions, for example between a Unix socket of this machine and a TCP port of another:
//
//	sidecar -listen unix:/run/app.sock -to 10.0.0.7:7000
//
// It looks at the head of each frame only: length, header, method, sequence id. The bytes are forwarded as they are, also while the rest of the frame
// is still on its way, so a body needs no memory. Large bodies do not pass through the process at all: see package splice. Answers may come in
// any order; the sequence ids in them belong to client and server.
//
// Each client has a connection of its own to the server. A client that sends anything but frames (TTHeader, THeader, Thrift's framed messages) is
// disconnected, and so is a client while the server cannot be reached. A line says why. One more line each second says how many calls there were,
// of which methods.
//
// SIGTERM ends the program when all calls that it has forwarded are answered or canceled, after ten seconds at the latest. It takes no new
// calls then: they fail with the end of the connection.
package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync"
	"time"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/splice"
	"github.com/sluice-push/sluice/transport"
)

func main() {
	at := flag.String("listen", "127.0.0.1:7013", "where clients connect: `HOST:PORT`, or unix:PATH; port 0 is one that is free")
	to := flag.String("to", "", "where the server is: `HOST:PORT`, or unix:PATH")
	interval := flag.Duration("interval", time.Second, "how often to print a line; 0 is never")
	connections := flag.Int("connections", 1000, "how many clients there may be at a time")
	maxFrame := flag.Int("max-frame", 64<<20, "how many `bytes` a frame may have")
	threshold := flag.Int64("splice", 0, "from how many `bytes` a body is moved by the kernel; 0 is 128 KiB, and never from a Unix socket to TCP")
	trace := flag.Bool("trace", false, "print a line for each frame")
	run.Parse()
	switch {
	case *to == "":
		run.Fail(errors.New("-to is missing: where is the server?"))
	case *interval < 0, *connections < 1, *maxFrame < 1, *threshold < 0:
		run.Fail(errors.New("-interval and -splice: not less than nothing; -connections and -max-frame: more than nothing"))
	}
	app := run.New()
	p := newProxy(*to, *connections, *maxFrame, &splice.Options{Threshold: *threshold})
	p.counts.trace = *trace
	network, address := split(*at)
	ln, err := transport.Listen(context.Background(), network, address, nil)
	if err != nil {
		run.Fail(err)
	}
	run.Say("forwarding to %s, listening on %v", *to, ln.Addr())
	stop := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() { p.counts.print(*interval, stop) })
	app.AtEnd(func(ctx context.Context) error {
		err := p.shutdown(ctx)
		close(stop)
		printer.Wait()
		run.Say("in all %s", p.total())
		return err
	})
	app.Exit(p.serve(ln))
}

// split returns the network and the address of unix:PATH or HOST:PORT.
func split(where string) (network, address string) {
	if path, ok := strings.CutPrefix(where, "unix:"); ok {
		return "unix", path
	}
	return "tcp", where
}
