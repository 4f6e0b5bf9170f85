package stream_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/stream"
	"github.com/sluice-push/sluice/push/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plain is a transport that makes a stream of each request, whatever its body is.
type plain struct {
	*stream.Transport
	kind  *gateway.Kind
	begin func(s *stream.Stream) bool
}

func (p *plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Serve(w, r, &stream.Options{Kind: p.kind, Begin: p.begin})
}

// newPlain returns a gateway with a plain transport, which is served at an address without what Gateway.Handler has around it.
func newPlain(t *testing.T, begin func(s *stream.Stream) bool) (g *gateway.Gateway, addr string) {
	t.Helper()
	b := memory.New(nil)
	ns := broker.Namespace{Mode: push.Stream, History: push.History{Size: 10}, Partitions: 1}
	h, err := hub.New(t.Context(), b, []hub.Namespace{{Namespace: ns}}, nil)
	must(t, err)
	p := &plain{kind: gateway.NewKind(gateway.Encoder{Form: gateway.Protobuf{}, Framing: gateway.Bare{}}, gateway.Emulated), begin: begin}
	g = gateway.New(h, &gateway.Options{Logger: slog.New(slog.DiscardHandler)}, func(g *gateway.Gateway) gateway.Transport {
		p.Transport = stream.NewTransport(g, "plain", []string{"POST /plain"}, p.kind)
		return p
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	conns := testwait.Conns(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = g.Shutdown(cancelled())
		_ = server.Close()
		testwait.Return(t, serving.Wait)
		testwait.Return(t, conns)
		must(t, h.Close())
		must(t, b.Close())
	})
	return g, l.Addr().String()
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestShutdownWithOpenBody: net/http waits for the rest of a body before it writes the header of a stream, and a shutdown does not wait for that.
func TestShutdownWithOpenBody(t *testing.T) {
	g, addr := newPlain(t, func(s *stream.Stream) bool {
		s.Begin(nil)
		return true
	})
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
	must(t, err)
	testwait.True(t, "a stream has begun", func() bool { return g.Stats().Transports["plain"].Opened == 1 })
	testwait.Return(t, func() { _ = g.Shutdown(cancelled()) })
}

// TestPanic: what panics in the connecting of a client is answered, counted and logged, and no client is left.
func TestPanic(t *testing.T) {
	g, addr := newPlain(t, func(*stream.Stream) bool { panic("a mistake") })
	res, err := http.Post("http://"+addr+"/plain", "", nil) //nolint:noctx // the test is bounded
	must(t, err)
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if got := g.Stats(); res.StatusCode != http.StatusInternalServerError || got.Panics != 1 || g.Len() != 0 {
		t.Errorf("%s, %d panics, %d clients", res.Status, got.Panics, g.Len())
	}
}
