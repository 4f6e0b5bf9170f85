package main_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1/clientv1connect"
)

// portClient are clients of all protocols of one port.
type portClient struct {
	t    *testing.T
	p    *process
	tls  *tls.Config // nil: without
	http *http.Client
}

func (c *portClient) url(scheme string) string {
	if c.tls != nil {
		scheme += "s"
	}
	return scheme + "://" + c.p.public
}

// TestOnePort: HTTP, WebSocket, server-sent events, gRPC, gRPC-Web and Connect on one port, with TLS and without, as native gRPC and shared.
func TestOnePort(t *testing.T) {
	cert, pool := writeCertificate(t)
	for _, secure := range []bool{false, true} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("tls %v, shared %v", secure, shared), func(t *testing.T) {
				text := fmt.Sprintf("grpc: {shared: %v, listen: \"127.0.0.1:0\"}\n", shared)
				c := &portClient{t: t}
				if secure {
					text += fmt.Sprintf("tls: {cert: %q, key: %q}\n", cert, cert)
					c.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
				}
				file := filepath.Join(t.TempDir(), "sluice.yaml")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				c.p = startNode(t, "--demo", "--config", file)
				transport := &http.Transport{TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true}
				defer transport.CloseIdleConnections()
				c.http = &http.Client{Transport: transport}
				slow, err := net.Dial("tcp", c.p.public)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = slow.Close() }()
				_, _ = io.WriteString(slow, "PRI") // and no more
				c.page()
				c.webSocket()
				c.events()
				c.grpc(c.p.public)
				c.grpc(c.p.grpc)
				c.connect(connect.WithProtoJSON())
				c.connect(connect.WithGRPCWeb())
				if code := c.p.terminate(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			})
		}
	}
}

func (c *portClient) page() {
	c.t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(c.t), http.MethodGet, c.url("http")+"/", http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		c.t.Errorf("HTTP: %v, %v", res.Status, err)
	}
	if c.tls != nil && res.ProtoMajor != 2 {
		c.t.Errorf("a client that offers HTTP/2 got %s", res.Proto)
	}
}

func (c *portClient) webSocket() {
	c.t.Helper()
	ctx := testwait.Context(c.t)
	transport := &http.Transport{TLSClientConfig: c.tls.Clone()}
	defer transport.CloseIdleConnections()
	conn, _, err := websocket.Dial(ctx, c.url("ws")+"/connection/websocket", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"id":1,"connect":{}}`)); err != nil {
		c.t.Fatal(err)
	}
	if _, got, err := conn.Read(ctx); err != nil || !strings.HasPrefix(string(got), `{"id":1,"connect":`) {
		c.t.Errorf("WebSocket: %s, %v", got, err)
	}
}

func (c *portClient) events() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(testwait.Context(c.t))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url("http")+"/connection/uni_sse", http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if !strings.HasPrefix(lines.Text(), `data: {"connect":`) {
		c.t.Errorf("server-sent events: %q, %v", lines.Text(), lines.Err())
	}
}

func (c *portClient) grpc(addr string) {
	c.t.Helper()
	ctx := testwait.Context(c.t)
	secured := insecure.NewCredentials()
	if c.tls != nil {
		secured = credentials.NewTLS(c.tls)
	}
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(secured))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	s, err := clientv1.NewClientClient(cc).Connect(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}}); err != nil {
		c.t.Fatal(err)
	}
	if r, err := s.Recv(); err != nil || r.GetConnect().GetClient() == "" {
		c.t.Errorf("gRPC: %v, %v", r, err)
	}
}

func (c *portClient) connect(o connect.ClientOption) {
	c.t.Helper()
	client, ctx := clientv1connect.NewClientClient(c.http, c.url("http"), o), testwait.Context(c.t)
	s, err := client.Consume(ctx, connect.NewRequest(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}}))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if !s.Receive() {
		c.t.Fatal(s.Err())
	}
	session := s.Msg().GetConnect()
	_, err = client.Send(ctx, connect.NewRequest(&clientv1.SendCommandsRequest{
		Session: session.GetSession(), Node: session.GetNode(),
		Commands: []*clientv1.Command{{Id: 2, Subscribe: &clientv1.SubscribeRequest{Channel: "ticks:x"}}},
	}))
	if err != nil || !s.Receive() || s.Msg().GetId() != 2 || s.Msg().GetSubscribe() == nil {
		c.t.Errorf("got %v, %v, %v", s.Msg(), s.Err(), err)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key to one file.
func writeCertificate(t *testing.T) (file string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	file = filepath.Join(t.TempDir(), "node.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return file, pool
}
