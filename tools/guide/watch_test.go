package guide_test

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
)

func Example_observe() {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var lost, handedOff atomic.Int64

	handler := session.Chain(session.Handler{Message: echo}, session.Logged(logger))
	srv := session.NewServer(codec.Line{}, handler, &session.Options{
		Logger: logger, // panics, and trouble with accepting
		Observer: &session.Observer{
			Dropped:   func(_ *session.Session, frames int) { lost.Add(int64(frames)) }, // whose queue is full
			HandedOff: func(*session.Session) { handedOff.Add(1) },                      // whose handler blocks
		},
	})
	expvar.Publish("sessions", expvar.Func(func() any { return srv.Stats() }))

	conn, stop := serve(srv)
	fmt.Fprintln(conn, "hello")
	printLines(conn, 1)
	stop()
	fmt.Println(strings.Contains(expvar.Get("sessions").String(), `"Messages":1`), lost.Load(), log.Len())
	// Output:
	// hello
	// true 0 0
}

func public(ctx context.Context, address string) (net.Listener, error) {
	return transport.Listen(ctx, "tcp", address, &transport.Options{
		ReusePort:    true,     // several processes may listen here
		NotSentLowat: 16 << 10, // what the kernel may hold that is not on its way to a slow client
	})
}

// Two listeners share a port.
func TestPublic(t *testing.T) {
	first, err := public(t.Context(), "127.0.0.1:0")
	if errors.Is(err, errors.ErrUnsupported) {
		return // not on this system
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	second, err := public(t.Context(), first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}
