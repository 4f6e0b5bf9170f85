// Command rpc-echo is a server of calls: its method Echo answers with what it was sent. It takes every form of body and every framing that package rpc
// has, on one port: JSON, raw bytes and Protobuf from clients of that package, Thrift from Apache's clients and Kitex.
//
// With -registry it is found there as the service echo. When it ends it first leaves the registry and then answers what still comes, so that no call
// is lost.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-push/sluice/discovery"
	"github.com/sluice-push/sluice/examples/internal/echo"
	"github.com/sluice-push/sluice/examples/internal/registry"
	"github.com/sluice-push/sluice/examples/internal/run"
	"github.com/sluice-push/sluice/rpc"
)

// registering is how long the registry may take to have the server.
const registering = 10 * time.Second

func main() {
	where := flag.String("registry", "", registry.Usage)
	advertise := flag.String("advertise", "", "`address` in the registry; default the one listened on")
	zone := flag.String("zone", "", "where the server is, for callers that prefer their own zone")
	app := run.Start("127.0.0.1:7011")

	srv := rpc.NewServer(&rpc.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	echo.Handle(srv)
	leave, err := register(*where, *advertise, *zone, app.Listener.Addr().String())
	if err != nil {
		run.Fail(err)
	}
	app.AtEnd(func(ctx context.Context) error {
		leave(ctx)
		err := srv.Shutdown(ctx)
		run.Say("%d calls, %d of them refused or failed", srv.Stats().Calls, srv.Stats().Refused+srv.Stats().Failed)
		return err
	})
	app.Exit(srv.Serve(app.Listener))
}

// register puts the server into a registry, if there is one. It returns what takes it out again.
func register(where, advertise, zone, listening string) (leave func(context.Context), err error) {
	if where == "" {
		return func(context.Context) {}, nil
	}
	if advertise == "" {
		if advertise, err = registry.Reachable(listening); err != nil {
			return nil, err
		}
	}
	r, closeRegistry, err := registry.Open(where)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), registering)
	defer cancel()
	registration, err := r.Register(ctx, echo.Service, discovery.Endpoint{Address: advertise, Zone: zone})
	if err != nil {
		return nil, err
	}
	run.Say("registered as %s", advertise)
	return func(ctx context.Context) {
		if err := registration.Close(ctx); err != nil {
			run.Say("the registry did not confirm that the server is gone: %v", err)
		}
		_ = closeRegistry() // nothing is left in it
	}, nil
}
