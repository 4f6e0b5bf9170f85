package tcp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/push/protocol"
)

// socketPath returns a path for a Unix socket, which must be short.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Clients of a Unix socket are like others. The file has the mode asked for, and goes with the listener.
func TestUnix(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		path := socketPath(t)
		l, err := tcp.Listen(t.Context(), tcp.UnixPrefix+path, &tcp.ListenOptions{Mode: 0o600})
		must(t, err)
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		p := newPlaceOn(t, l, &gateway.Options{SessionsPerAddress: 2}, o)
		a, _ := p.subscribe("a")
		b, _ := p.subscribe("a")
		p.publish("a", "1")
		a.want("a", "1")
		b.want("a", "1")
		if r := p.dial().receive(); r.Push.Disconnect.Code != push.DisconnectTooManyRequests.Code {
			t.Errorf("a third client of the address received %s", text(r))
		}
		go func() { _ = p.gateway.Shutdown(testwait.Context(t)) }()
		a.wantEnd(push.DisconnectShutdown)
		b.wantEnd(push.DisconnectShutdown)
		testwait.True(t, "the file is removed", func() bool { _, err := os.Lstat(path); return os.IsNotExist(err) })
	})
}

// A socket file that a dead process has left is replaced. One in use is not, nor is another file.
func TestSocketInTheWay(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	l, err := tcp.Listen(t.Context(), tcp.UnixPrefix+path, nil)
	must(t, err)
	if _, err := tcp.Listen(t.Context(), tcp.UnixPrefix+path, nil); err == nil || !strings.Contains(err.Error(), path) ||
		!strings.HasSuffix(err.Error(), "address already in use: a process seems to listen there") {
		t.Errorf("listening twice: %v", err)
	}
	must(t, l.Close())
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	if _, err := tcp.Listen(t.Context(), tcp.UnixPrefix+path, nil); err == nil || !strings.HasSuffix(err.Error(), "the file exists and is no socket") {
		t.Errorf("listening at a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// certificate returns a certificate for localhost, and the configuration of clients that trust it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(raw)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// Clients over TLS are like others; the hook sees the state of TLS.
func TestTLS(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		seen := make(chan *http.Request, 2)
		var client *tls.Config
		o.TLS, client = certificate(t)
		p := newPlace(t, &gateway.Options{Authenticate: func(_ context.Context, _ string, r *http.Request) (gateway.Identity, error) {
			seen <- r
			return gateway.Identity{}, nil
		}}, o)
		p.client = client
		c, r := p.subscribe("a")
		if got := testwait.Receive(t, seen).TLS; got == nil || !got.HandshakeComplete || got.ServerName != "localhost" {
			t.Errorf("%+v", got)
		}
		large := `"` + strings.Repeat("x", 60_000) + `"`
		p.publish("a", "1")
		p.publish("a", large)
		c.want("a", "1", large)
		must(t, c.conn.Close())
		p.publish("a", "3")
		c = p.connect()
		if got := c.subscribe(protocol.SubscribeRequest{Channel: "a", Recover: true, Position: push.Position{Epoch: r.Position.Epoch, Offset: 2}}); len(got.Publications) != 1 {
			t.Errorf("%+v", got)
		}
		c.write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		c.wantEnd(badRequest("a message has more than %d bytes, or no valid length", 64<<10))
	})
}

// A connection whose TLS handshake fails, or does not come, is no client, and is counted as refused.
func TestTLSRefused(t *testing.T) {
	eachEngine(t, func(t *testing.T, o *tcp.Options) {
		o.TLS, _ = certificate(t)
		p := newPlace(t, &gateway.Options{ConnectTimeout: 100 * time.Millisecond}, o)
		plain, silent := p.dial(), p.dial()
		plain.send(protocol.Command{ID: 1, Kind: protocol.KindConnect})
		for _, c := range []*client{plain, silent} {
			for err := error(nil); err == nil; { // an alert may come first
				_, err = c.in.ReadByte()
			}
		}
		testwait.True(t, "both are counted", func() bool { return p.gateway.Stats().Refused.Request == 2 })
		if s := p.stats(); s.Opened != 0 || s.Clients != 0 {
			t.Errorf("%+v", s)
		}
	})
}
