package grpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/transport"
)

// proxiedNode is a node that expects PROXY headers from loopback, and reports the addresses of its clients.
func proxiedNode(t *testing.T) (n *node, addresses chan string) {
	t.Helper()
	addresses = make(chan string, 1)
	o := &gateway.Options{Authenticate: func(_ context.Context, _ string, r *http.Request) (gateway.Identity, error) {
		addresses <- r.RemoteAddr
		return gateway.Identity{}, nil
	}}
	return newNode(t, o, func(l net.Listener) net.Listener {
		wrapped, err := transport.Wrap(l, &transport.Options{Proxy: &transport.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
		must(t, err)
		return wrapped
	}), addresses
}

// raw returns a connection that begins with text.
func (n *node) raw(text string) net.Conn {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	must(n.t, err)
	n.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	must(n.t, err)
	return conn
}

// proxiedClient opens a session behind a proxy, for a client at 192.0.2.7:56324.
func (n *node) proxiedClient() {
	n.t.Helper()
	n.client(testwait.Context(n.t), n.dial(googlegrpc.WithTransportCredentials(insecure.NewCredentials()),
		googlegrpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return n.raw("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"), nil
		})))
}

// wantEnd waits until the node has closed a connection without an answer.
func (n *node) wantEnd(conn net.Conn) {
	n.t.Helper()
	got := testwait.Receive(n.t, readAll(conn))
	if len(got.text) > 0 || got.err != nil && !errors.Is(got.err, syscall.ECONNRESET) {
		n.t.Errorf("got %q, %v", got.text, got.err)
	}
}

type readResult struct {
	text []byte
	err  error
}

// readAll reads a connection to its end.
func readAll(conn net.Conn) <-chan readResult {
	c := make(chan readResult, 1)
	go func() {
		text, err := io.ReadAll(conn)
		c <- readResult{text, err}
	}()
	return c
}

// TestProxyHeader: a client behind a proxy has the address of the header. A connection without a valid header is closed and counted.
func TestProxyHeader(t *testing.T) {
	n, addresses := proxiedNode(t)
	n.proxiedClient()
	if got := testwait.Receive(t, addresses); got != "192.0.2.7:56324" {
		t.Errorf("the address is %s", got)
	}
	n.wantEnd(n.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	n.wantEnd(n.raw("PROXY TCP4 x y 1 2\r\n"))
	testwait.True(t, "both to be counted", func() bool { return n.gateway.Stats().Refused.Request == 2 })
}

// TestProxyHeaderAtShutdown: a connection whose header has not come ends with the node, and is not counted.
func TestProxyHeaderAtShutdown(t *testing.T) {
	n, _ := proxiedNode(t)
	silent := n.raw("")
	n.proxiedClient() // accepted after the first connection
	_ = n.shutdown(0)
	n.wantEnd(silent)
	if got := n.gateway.Stats().Refused.Request; got != 0 {
		t.Errorf("%d are counted", got)
	}
}
