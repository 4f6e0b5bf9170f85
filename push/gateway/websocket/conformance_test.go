package websocket_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	wsclients "github.com/sluice-push/sluice/push/gateway/websocket"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		json := carriertest.Harness{Transport: wsclients.New, Form: carriertest.JSON, Way: gateway.TwoWay, Compression: compressed}
		json.Dial = dialer(wsclients.Path, websocket.OpText, compressed)
		protobuf := json
		protobuf.Form, protobuf.Dial = carriertest.Protobuf, dialer(wsclients.Path+"?format=protobuf", websocket.OpBinary, compressed)
		oneWay := json
		oneWay.Transport, oneWay.Way, oneWay.ConnectsLate = wsclients.NewOneWay, gateway.OneWay, true
		oneWay.Dial = dialer(wsclients.OneWayPath, websocket.OpText, compressed)
		prefix := map[bool]string{true: "Compressed"}[compressed]
		t.Run(prefix+"JSON", func(t *testing.T) { carriertest.Run(t, json) })
		t.Run(prefix+"Protobuf", func(t *testing.T) { carriertest.Run(t, protobuf) })
		t.Run(prefix+"OneWay", func(t *testing.T) { carriertest.Run(t, oneWay) })
	}
}

// Over TLS a session takes the connection over from net/http, as it does without.
func TestConformanceTLS(t *testing.T) {
	server, client := configs(t)
	carriertest.Run(t, carriertest.Harness{
		Transport: wsclients.New, Form: carriertest.JSON, Way: gateway.TwoWay,
		Dial: func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
			c, err := websocket.Dial(ctx, "wss://node"+wsclients.Path, &websocket.Options{MaxMessage: -1, DialContext: t.Dial, Session: session.Options{TLS: client}})
			if err != nil {
				return nil, err
			}
			return &conn{c, websocket.OpText}, nil
		},
		Serve: func(g *gateway.Gateway, _ gateway.Transport, ln net.Listener) (stop func()) {
			return serveTLS(g.Handler(), ln, server)
		},
	})
}

// serveTLS serves a handler over TLS, as the command sluice does, until stop is called.
func serveTLS(h http.Handler, ln net.Listener, config *tls.Config) (stop func()) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(tlsListener{ln, config}) })
	return func() {
		_ = s.Close()
		serving.Wait()
	}
}

type tlsListener struct {
	net.Listener
	config *tls.Config
}

func (l tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return transport.ServerTLS(c, l.config), nil
}

// configs returns the configuration of a server, with a certificate for the name "node", and that of a client that trusts it.
func configs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().Add(-100 * 365 * 24 * time.Hour) // in fake time it is the year 2000
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"node"}, NotBefore: from, NotAfter: from.Add(200 * 365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots, ServerName: "node"}
}

// conn is a client that sends messages of one kind.
type conn struct {
	*websocket.Conn
	op websocket.Opcode
}

// dialer returns a function that connects to a path.
func dialer(path string, op websocket.Opcode, compressed bool) func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
	return func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
		o := &websocket.Options{MaxMessage: -1, DialContext: t.Dial}
		if compressed {
			o.Compression = new(websocket.Compression)
		}
		c, err := websocket.Dial(ctx, "ws://node"+path, o)
		if err != nil {
			return nil, err
		}
		return &conn{c, op}, nil
	}
}

func (c *conn) Send(frame []byte) error { return c.Conn.Send(c.op, frame) }

func (c *conn) Receive() ([]byte, error) {
	m, err := c.Conn.Receive(context.Background())
	if err != nil {
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Remote && closed.Code >= 3000 {
			return nil, push.Disconnect{Code: closed.Code, Reason: closed.Reason}
		}
		return nil, err
	}
	if m.Op != c.op {
		return nil, errors.New("a message of another kind")
	}
	return m.Data, nil
}

func (c *conn) Close() { c.CloseNow() }
