package websocket_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/broker"
	"github.com/sluice-push/sluice/push/broker/memory"
	"github.com/sluice-push/sluice/push/gateway"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/hub"
)

// Idle clients over TLS have no goroutine.
func TestIdleTLS(t *testing.T) {
	const clients = 50
	b := memory.New(nil)
	h, err := hub.New(t.Context(), b, []hub.Namespace{{Namespace: broker.Namespace{Mode: push.Stream, Partitions: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(h, nil, wsclients.New)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, client := configs(t)
	stop := serveTLS(g.Handler(), ln, server)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = g.Shutdown(now)
		stop()
		_, _ = h.Close(), b.Close()
	})
	conns := make([]*tls.Conn, clients)
	request := "GET " + wsclients.Path + " HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	before := runtime.NumGoroutine()
	for i := range conns {
		if conns[i], err = tls.Dial("tcp", ln.Addr().String(), client); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		if _, err := conns[i].Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", res, err)
		}
	}
	testwait.True(t, "idle clients have no goroutine", func() bool { return g.Len() == clients && runtime.NumGoroutine() < before+clients/2 })
}
