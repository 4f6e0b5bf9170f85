package main_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	varint "encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/protocol"
	"github.com/sluice-push/sluice/push/protocol/protobuf"
	"github.com/sluice-push/sluice/push/protocol/protobuf/clientv1"
)

// clientAuthority writes the certificate of an authority to a file, and returns what issues certificates for clients.
func clientAuthority(t *testing.T) (file string, issue func(user string) tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	must(t, err)
	file = filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return file, func(user string) tls.Certificate {
		t.Helper()
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: user},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, key)
		must(t, err)
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
}

// personal connects a client of HTTP, and returns the status, the first message, which lists the user's channels, and the rest.
func personal(t *testing.T, p *process, c *tls.Config) (status int, first string, rest *bufio.Scanner) {
	t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "https://"+p.public+"/connection/uni_http_stream", strings.NewReader("{}"))
	must(t, err)
	resp, err := client(c).Do(r)
	must(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	return resp.StatusCode, lines.Text(), lines
}

// The subject of a client's certificate is its user, over HTTP, gRPC and TCP. It can be blocked. Ports that require certificates are closed to others.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	cert, pool := writeCertificate(t)
	ca, issue := clientAuthority(t)
	files := fmt.Sprintf("cert: %q, key: %q, client_ca: %q", cert, cert, ca)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, []byte(`
tls: {`+files+`}
tcp: {listen: "127.0.0.1:0", tls: {`+files+`, require_client: true}}
internal_tls: {`+files+`, require_client: true}
auth: {client_certificates: true, personal_channel: true}
api: {keys: [{name: x, hash: "`+config.HashKey("secret")+`", scopes: [control]}]}
broker: {kind: memory}
namespaces: [{name: ""}]
`), 0o600))
	p := startNode(t, "--config", file)
	with := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: certs, MinVersion: tls.VersionTLS12}
	}
	ann := with(issue("ann"))
	if status, first, _ := personal(t, p, with()); status != http.StatusForbidden && status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d, %s", status, first)
	}
	if status, first, _ := personal(t, p, with(issue("a\nb"))); status == http.StatusOK {
		t.Errorf("with a name that is no user: %s", first)
	}
	status, first, rest := personal(t, p, ann)
	if status != http.StatusOK || !strings.Contains(first, `"#ann"`) {
		t.Fatalf("with a certificate: %d, %s", status, first)
	}

	cc, err := grpc.NewClient(p.public, grpc.WithTransportCredentials(credentials.NewTLS(ann.Clone())))
	must(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	s, err := clientv1.NewClientClient(cc).Connect(testwait.Context(t))
	must(t, err)
	must(t, s.Send(&clientv1.Command{Id: 1, Connect: &clientv1.ConnectRequest{}}))
	if r, err := s.Recv(); err != nil || r.GetConnect().GetSubs()["#ann"] == nil {
		t.Errorf("over gRPC: %v, %v", r, err)
	}
	if r, err := connectTCP(t, p.tcp, ann); err != nil || r.ID != 1 || len(r.Connect.Subs) != 1 {
		t.Errorf("over TCP: %+v, %v", r, err)
	}
	if r, err := connectTCP(t, p.tcp, with()); err == nil {
		t.Errorf("over TCP without a certificate: %+v", r)
	}

	for name, c := range map[string]*tls.Config{"ann": ann, "nobody": with()} {
		resp, err := client(c).Get(p.internal + "/health/ready")
		if (err == nil && resp.StatusCode == http.StatusOK) != (name == "ann") {
			t.Errorf("the internal address for %s: %v", name, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}

	block(t, p, with(), "ann")
	last := ""
	for rest.Scan() {
		last = rest.Text()
	}
	if !strings.Contains(last, "3500") {
		t.Errorf("a blocked client ended with %s", last)
	}
	if status, first, _ := personal(t, p, ann); status == http.StatusOK {
		t.Errorf("a blocked user came back: %s", first)
	}
}

// client returns an HTTP client that makes a connection for each request.
func client(c *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
}

// block blocks a user by the API.
func block(t *testing.T, p *process, c *tls.Config, user string) {
	t.Helper()
	r, err := http.NewRequestWithContext(testwait.Context(t), http.MethodPost, "https://"+p.public+"/api/block_user", strings.NewReader(`{"user":"`+user+`"}`))
	must(t, err)
	r.Header.Set("X-API-Key", "secret")
	resp, err := client(c).Do(r)
	must(t, err)
	answer, err := io.ReadAll(resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
	if !strings.Contains(string(answer), "result") {
		t.Fatalf("block_user: %s", answer)
	}
}

// connectTCP connects a client of the TCP port.
func connectTCP(t *testing.T, address string, c *tls.Config) (r protocol.Reply, err error) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testwait.Bound))
	if _, err := conn.Write(protobuf.AppendCommand(nil, &protocol.Command{ID: 1, Kind: protocol.KindConnect})); err != nil {
		return r, err
	}
	in := bufio.NewReader(conn)
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
