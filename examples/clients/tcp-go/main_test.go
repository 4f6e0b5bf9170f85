//go:build unix

package main_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/examples/internal/proctest"
	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol"
)

var program = proctest.New(".")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		program.Remove()
		os.Exit(code)
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The client prints what is published, answers pings, and says why the server ended the connection.
func TestClient(t *testing.T) {
	b := memory.New(nil)
	defer b.Close()
	space := hub.Namespace{Namespace: broker.Namespace{Name: "news", Mode: push.Stream, History: push.History{Size: 10}}}
	h, err := hub.New(t.Context(), b, []hub.Namespace{space}, nil)
	must(t, err)
	defer h.Close()
	var clients *tcp.Transport
	g := gateway.New(h, &gateway.Options{PingInterval: time.Second, PongTimeout: 500 * time.Millisecond}, func(g *gateway.Gateway) gateway.Transport {
		clients = tcp.New(g, nil)
		return clients
	})
	l, err := tcp.Listen(t.Context(), "127.0.0.1:0", nil)
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = clients.Serve(l) })
	defer serving.Wait()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Shutdown(ctx)
	}()

	p := program.Start(t, l.Addr().String(), "news:today")
	p.Line("subscribed to news:today")
	testwait.True(t, "pings are answered", func() bool { return g.Stats().Commands[protocol.KindNone] >= 2 })
	for _, data := range []string{`{"title":"hello"}`, `{"title":"again"}`} {
		_, err = h.Publish(t.Context(), "news:today", push.Publication{Data: []byte(data)}, "")
		must(t, err)
	}
	p.Line(`1 {"title":"hello"}`)
	p.Line(`2 {"title":"again"}`)
	ended := make(chan error, 1)
	go func() { ended <- g.Shutdown(t.Context()) }()
	if status, _, stderr := p.Exit(); status != 1 || !strings.Contains(stderr, "disconnect 3001: shutdown") {
		t.Errorf("status %d, %s", status, stderr)
	}
	must(t, <-ended)
}

// A refusal is said.
func TestRefused(t *testing.T) {
	for args, want := range map[string]string{"127.0.0.1:1 news": "connection refused", "unix:/nowhere news": "no such file", "news": "usage"} {
		if status, _, stderr := program.Start(t, strings.Fields(args)...).Exit(); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
