package connect_test

import (
	"context"
	"crypto/tls"
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
	connectclients "github.com/sluice-push/sluice/push/gateway/connect"
	"github.com/sluice-push/sluice/push/hub"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is a hub and a gateway with the transport under test, served by net/http with HTTP/1.1 and HTTP/2.
type node struct {
	t       testing.TB
	hub     *hub.Hub
	gateway *gateway.Gateway
	url     string
}

func newNode(t testing.TB, o *gateway.Options) *node {
	t.Helper()
	n := &node{t: t}
	b := memory.New(nil)
	ns := broker.Namespace{Mode: push.Stream, History: push.History{Size: 20_000}, Partitions: 1}
	h, err := hub.New(t.Context(), b, []hub.Namespace{{Namespace: ns}}, nil)
	must(t, err)
	own := gateway.Options{}
	if o != nil {
		own = *o
	}
	own.Logger = slog.New(slog.DiscardHandler)
	n.hub, n.gateway = h, gateway.New(h, &own, connectclients.New)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: n.gateway.Handler(), ReadHeaderTimeout: time.Minute, Protocols: both()}
	conns := testwait.Conns(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = n.shutdown(0)
		_ = server.Close()
		testwait.Return(t, serving.Wait)
		testwait.Return(t, conns)
		must(t, h.Close())
		must(t, b.Close())
	})
	return n
}

func both() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// shutdown ends the gateway with some patience.
func (n *node) shutdown(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return n.gateway.Shutdown(ctx)
}

func (n *node) publish(channel, data string) {
	n.t.Helper()
	_, err := n.hub.Publish(testwait.Context(n.t), channel, push.Publication{Data: []byte(data)}, "")
	must(n.t, err)
}

// httpClient returns a client of HTTP for the variant.
func (n *node) httpClient(v variant) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!v.http2)
	p.SetUnencryptedHTTP2(v.http2)
	tr := &http.Transport{Protocols: &p, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	n.t.Cleanup(tr.CloseIdleConnections)
	if v.text {
		return &http.Client{Transport: &textTransport{n.t, tr}}
	}
	return &http.Client{Transport: tr}
}

func (n *node) client(v variant) clientv1connect.ClientClient {
	return clientv1connect.NewClientClient(n.httpClient(v), n.url, v.options...)
}

// stats returns the counts of the transport.
func (n *node) stats() gateway.TransportStats {
	return n.gateway.Stats().Transports[connectclients.Name]
}
