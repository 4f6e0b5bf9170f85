package main_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	varint "encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
)

// securedClient is a client over TLS that subscribes to one channel.
type securedClient struct {
	name  string
	shown []byte // the certificate of the node
	// next returns the data of the next publication.
	next func() (string, error)
}

// TestNewCertificate: when the node's certificate is replaced while 1,000 clients are connected over TLS, by WebSocket and on the TCP
// port, none is cut and all get what is published before and after; clients that come later are shown the new certificate.
func TestNewCertificate(t *testing.T) {
	t.Parallel()
	cert, pool := writeCertificate(t)
	newCert, newPool := writeCertificate(t)
	settings := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	files := fmt.Sprintf("{cert: %q, key: %q}", cert, cert)
	p := startNodeWith(t, "tls: "+files+"\ntcp: {listen: \"127.0.0.1:0\", tls: "+files+"}\nping: {interval: 5m, timeout: 4m}\nbroker: {kind: memory}\n")
	const count = 1000
	clients := make([]*securedClient, count)
	first := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	connectAll(t, clients, func(i int) (*securedClient, error) {
		if i%2 == 0 {
			return overSecuredTCP(t, p.tcp, first)
		}
		return overSecuredWebSocket(t, p.public, first)
	})
	old := clients[0].shown
	announce := func(settings *tls.Config, data string, to []*securedClient) {
		t.Helper()
		publishSecured(t, p, settings, data)
		for i, c := range to {
			if got, err := c.next(); got != data || err != nil {
				t.Fatalf("%s client %d got %q, %v, want %q", c.name, i, got, err, data)
			}
		}
	}
	announce(settings, `"before"`, clients)

	text, err := os.ReadFile(newCert)
	must(t, err)
	must(t, os.WriteFile(cert+".new", text, 0o600))
	must(t, os.Rename(cert+".new", cert))
	settings = &tls.Config{RootCAs: newPool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	for name, dial := range map[string]func() (*securedClient, error){
		"TCP":       func() (*securedClient, error) { return overSecuredTCP(t, p.tcp, settings) },
		"WebSocket": func() (*securedClient, error) { return overSecuredWebSocket(t, p.public, settings) },
	} {
		testwait.True(t, "a client over "+name+" is shown the new certificate", func() bool {
			c, err := dial()
			if err != nil {
				return false
			}
			if bytes.Equal(c.shown, old) {
				t.Fatal("a client that knows only the new certificate is shown the old one")
			}
			clients = append(clients, c)
			return true
		})
	}
	announce(settings, `"after"`, clients)
	if got := metric(p.scrape()["sluice_connections"]); got != count+2 {
		t.Errorf("the node has %v clients, want %d", got, count+2)
	}
}

// connectAll connects clients, some at a time.
func connectAll(t *testing.T, clients []*securedClient, dial func(i int) (*securedClient, error)) {
	t.Helper()
	const atOnce = 8
	var connecting sync.WaitGroup
	for worker := range atOnce {
		connecting.Go(func() {
			for i := worker; i < len(clients); i += atOnce {
				c, err := dial(i)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				clients[i] = c
			}
		})
	}
	testwait.Return(t, connecting.Wait)
	if t.Failed() {
		t.FailNow()
	}
}

// publishSecured publishes by the API.
func publishSecured(t *testing.T, p *process, c *tls.Config, data string) {
	t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "https://"+p.public+"/api/publish", strings.NewReader(`{"channel":"a","data":`+data+`}`))
	must(t, err)
	response, err := client(c).Do(r)
	must(t, err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("publish: %s", response.Status)
	}
}

func overSecuredTCP(t *testing.T, address string, c *tls.Config) (*securedClient, error) {
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testwait.Bound))
	commands := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	commands = protobuf.AppendCommand(commands, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}})
	if _, err := conn.Write(commands); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 512)
	receive := func() (r protocol.Reply, err error) {
		size, err := varint.ReadUvarint(in)
		if err != nil {
			return r, err
		}
		message := make([]byte, size)
		if _, err = io.ReadFull(in, message); err == nil {
			err = protobuf.DecodeReply(message, &r)
		}
		return r, err
	}
	if err := answered(receive); err != nil {
		return nil, err
	}
	next := func() (string, error) {
		r, err := receive()
		return string(r.Push.Publication.Data), err
	}
	return &securedClient{"TCP", conn.ConnectionState().PeerCertificates[0].Raw, next}, nil
}

func overSecuredWebSocket(t *testing.T, address string, c *tls.Config) (*securedClient, error) {
	ctx := testwait.Context(t)
	shown := make(chan []byte, 1)
	own := c.Clone()
	own.VerifyConnection = func(s tls.ConnectionState) error { shown <- s.PeerCertificates[0].Raw; return nil }
	conn, _, err := websocket.Dial(ctx, "wss://"+address+"/connection/websocket?format=protobuf", &websocket.DialOptions{HTTPClient: client(own)})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	var frame []byte
	receive := func() (r protocol.Reply, err error) {
		if len(frame) == 0 {
			if _, frame, err = conn.Read(ctx); err != nil {
				return r, err
			}
		}
		message, rest, err := protobuf.Next(frame)
		if err != nil {
			return r, err
		}
		frame = rest
		err = protobuf.DecodeReply(message, &r)
		return r, err
	}
	commands := protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})
	commands = protobuf.AppendCommand(commands, &protocol.Command{ID: 2, Kind: protocol.KindSubscribe, Subscribe: protocol.SubscribeRequest{Channel: "a"}})
	if err := conn.Write(ctx, websocket.MessageBinary, commands); err != nil {
		return nil, err
	}
	if err := answered(receive); err != nil {
		return nil, err
	}
	next := func() (string, error) {
		r, err := receive()
		return string(r.Push.Publication.Data), err
	}
	return &securedClient{"WebSocket", <-shown, next}, nil
}

// answered receives the answers to connect and subscribe.
func answered(receive func() (protocol.Reply, error)) error {
	for id := range uint32(2) {
		if r, err := receive(); err != nil || r.ID != id+1 || r.Error != nil {
			return fmt.Errorf("the answer is %+v, %w", r, err)
		}
	}
	return nil
}
