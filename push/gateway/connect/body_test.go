package connect_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
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

// brokenBody is the body of a client that is cut off: after some bytes reading fails, and the context of the request ends a little later, as net/http
// has it.
type brokenBody struct {
	*strings.Reader

	cut context.CancelFunc
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.Len() > 0 {
		return b.Reader.Read(p)
	}
	time.AfterFunc(20*time.Millisecond, b.cut)
	return 0, errors.New("client disconnected")
}

func (*brokenBody) Close() error { return nil }

// TestCutWithinMessage: a client that is cut off within a message has left. It is not disconnected as one that has broken a rule.
func TestCutWithinMessage(t *testing.T) {
	n := newNode(t, nil)
	message, err := proto.Marshal(connectCommand())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	body := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + string(message) + "\x00\x00\x00"
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, clientv1connect.ClientConnectProcedure, &brokenBody{strings.NewReader(body), cancel})
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.ContentLength = "HTTP/2.0", 2, 0, -1
	r.Header.Set("Content-Type", "application/connect+proto")
	testwait.Return(t, func() { n.gateway.Handler().ServeHTTP(httptest.NewRecorder(), r) })
	if s := n.stats(); s.Opened != 1 || s.Left != 1 || s.Disconnected[uint32(push.DisconnectBadRequest.Code)] != 0 {
		t.Errorf("%+v", s)
	}
}
