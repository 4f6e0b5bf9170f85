package connect_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/gateway"
)

// dialBody sends the head of a call over HTTP/1.1, and the beginning of its body.
func (n *node) dialBody(method, head, body string) net.Conn {
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	must(n.t, err)
	n.t.Cleanup(func() { _ = conn.Close() })
	must(n.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST /sluice.client.v1.Client/%s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n%s", method, head, body)
	must(n.t, err)
	return conn
}

// TestUnfinishedBody: a body that does not come in time ends its connection. What comes later is not taken for another request.
func TestUnfinishedBody(t *testing.T) {
	n := newNode(t, &gateway.Options{ConnectTimeout: 20 * time.Millisecond})
	for _, tt := range []struct{ method, contentType string }{
		{"Send", "application/proto"},
		{"Send", "application/json"},
		{"Consume", "application/connect+proto"},
		{"Consume", "application/grpc-web+proto"},
		{"Connect", "application/connect+proto"},
	} {
		conn := n.dialBody(tt.method, "Content-Length: 100\r\nContent-Type: "+tt.contentType, "{")
		got, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 ") {
			t.Errorf("%v: %q, %v", tt, got, err)
		}
	}
}
