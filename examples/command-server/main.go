// Command command-server answers commands in frames: connect (0x01) and submit (0x02), as package internal/command writes them
// down. A frame is 4 bytes of length that count the whole frame, one byte of command, 8 bytes of id, and a name or a payload; the
// answer has the command 0x80 or 0x81, the id of the request and one byte of result. Answers come in the order of the requests.
//
// What is not in order is answered with a result, and the session goes on, as long as it is clear what was meant:
//
//	1  a submit came before the connect
//	2  a second connect; the first one counts
//	3  the name is longer than 64 bytes or not UTF-8; the session is not connected
//
// Everything else ends the session, after the answers to what came before: a frame too short to have an id, or longer than 64 KiB,
// and a command that there is not. Standard error says so. It does as well when a session says nothing for its first ten seconds, which
// is all the time it has for that: see [session.Options].
//
// With -metrics there are metrics for Prometheus at /metrics, and the profiles of net/http/pprof at /debug/pprof/, on an address
// of their own:
//
//	client_connected  gauge    connections that are open now
//	req_recv_total    counter  connects and submits received
//	rsp_send_total    counter  answers sent
//
// prometheus.yml and dashboard.json, for Grafana, go with them.
//
// Commands are handled by the event loops of package session, which is the fastest for work as short as this. With -workers they
// are handled by so many goroutines of a pool, as they would be in a server whose commands wait for a database; when all
// are busy, what comes waits in the connections.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/workerpool"
)

func main() {
	at := flag.String("metrics", "", "`address` for metrics and profiles; none if empty")
	workers := flag.Uint("workers", 0, "handle commands on a pool of so many `goroutines`; 0 is on the event loops")
	app := run.Start("127.0.0.1:7003")

	var o session.Options
	var pool *workerpool.Shared // the functions of one session never run at the same time, so it needs no order
	if *workers > 0 {
		pool = workerpool.NewShared(&workerpool.Options{Workers: int(*workers)})
		o.Executor = pool
	}
	srv := newServer(slog.New(slog.NewTextHandler(os.Stderr, nil)), &o)
	page, err := serveWeb(*at, srv.metrics())
	if err != nil {
		run.Fail(err)
	}
	app.AtEnd(func(ctx context.Context) error {
		err := srv.Shutdown(ctx)
		if pool != nil {
			err = errors.Join(err, pool.Shutdown(ctx))
		}
		run.Say("%s", srv.summary())
		return errors.Join(err, page.close(ctx))
	})
	app.Exit(srv.Serve(app.Listener))
}

// summary says what the server has done.
func (srv *server) summary() string {
	return fmt.Sprintf("clients: %d, requests: %d, answers: %d", srv.Stats().Opened, srv.received.Load(), srv.sent.Load())
}
