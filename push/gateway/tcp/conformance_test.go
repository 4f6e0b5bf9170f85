package tcp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/pushtest/carriertest"
	"github.com/sluice-push/sluice/session"
)

func TestConformance(t *testing.T) {
	now := time.Now() // a certificate is not valid in the time of a bubble
	server, client := certificate(t)
	client.Time = func() time.Time { return now }
	path, sockets := socketPath(t), new(atomic.Int64)
	onPort := func() string { return "127.0.0.1:0" }
	for _, tt := range []struct {
		name    string
		address func() string
		options tcp.Options
		client  *tls.Config
	}{
		{"TCP", onPort, tcp.Options{}, nil},
		{"Goroutines", onPort, tcp.Options{Engine: session.EngineGoroutine}, nil},
		{"TLS", onPort, tcp.Options{TLS: server}, client},
		{"Unix", func() string { return fmt.Sprint(tcp.UnixPrefix, path, sockets.Add(1)) }, tcp.Options{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			carriertest.Run(t, carriertest.Harness{
				Transport: func(g *gateway.Gateway) gateway.Transport { return tcp.New(g, &tt.options) },
				Form:      carriertest.Protobuf,
				Way:       gateway.TwoWay,
				Dial:      dialer(tt.client),
				Listen:    func(ctx context.Context) (net.Listener, error) { return tcp.Listen(ctx, tt.address(), nil) },
				Serve:     serve,
			})
		})
	}
}

// serve serves the clients that come to a listener.
func serve(_ *gateway.Gateway, t gateway.Transport, ln net.Listener) (stop func()) {
	var serving sync.WaitGroup
	serving.Go(func() { _ = t.(*tcp.Transport).Serve(ln) })
	return func() {
		_ = ln.Close()
		serving.Wait()
	}
}

// frames is a client of the suite.
type frames struct {
	net.Conn
	in *bufio.Reader
}

// dialer returns a function that connects, over TLS unless the configuration is nil.
func dialer(config *tls.Config) func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
	return func(ctx context.Context, t carriertest.Target) (carriertest.Conn, error) {
		conn, err := t.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		if config != nil {
			conn = tls.Client(conn, config)
		}
		return &frames{conn, bufio.NewReader(conn)}, nil
	}
}

// Send implements carriertest.Conn. Of the beginning of a message the server expects the rest: no client can send it as a whole frame.
func (c *frames) Send(frame []byte) error {
	for rest := frame; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n == 0 || n > 0 && size > uint64(len(rest)-n) { //nolint:gosec // not negative
			return errors.ErrUnsupported
		}
		if n < 0 {
			break
		}
		rest = rest[n+int(size):] //nolint:gosec // not larger
	}
	_, err := c.Write(frame)
	return err
}

func (c *frames) Receive() ([]byte, error) { return carriertest.Protobuf.ReadMessage(c.in) }

func (c *frames) Close() { _ = c.Conn.Close() }
