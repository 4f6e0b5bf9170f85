package guide_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/codec"
	"github.com/sluice-push/sluice/session"
	"github.com/sluice-push/sluice/transport"
)

// count is a server that counts to three and ends.
func count() *session.Server {
	return session.NewServer(codec.Line{}, &session.Handler{
		Message: func(s *session.Session, _ []byte) {
			for i := range 3 {
				_ = s.Send(fmt.Append(nil, i+1))
			}
			s.End(nil, nil)
		},
	}, nil)
}

func prices(ctx context.Context, address string) error {
	s, err := session.Dial(ctx, "tcp", address, codec.Line{}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Send([]byte("subscribe")); err != nil {
		return err
	}
	for msg := range s.Messages(ctx, &err) {
		fmt.Printf("%s\n", msg) // valid until the next one
	}
	return err // nil: the server ended in order
}

func Example_pull() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := count()
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()

	fmt.Println(prices(context.Background(), ln.Addr().String()))
	// Output:
	// 1
	// 2
	// 3
	// <nil>
}

func Example_clients() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := count()
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	ctx, address := context.Background(), ln.Addr().String()
	lines, ended := make(chan string, 10), make(chan error, 1)

	client := session.NewClient(codec.Line{}, &session.Handler{
		Message: func(_ *session.Session, msg []byte) { lines <- string(msg) },
		Close:   func(_ *session.Session, info *session.CloseInfo) { ended <- info.Err },
	}, nil)
	defer client.Close()
	s, err := client.Dial(ctx, "tcp", address)
	if err != nil {
		panic(err)
	}
	_ = s.Send([]byte("subscribe"))

	fmt.Println(<-lines, <-lines, <-lines, <-ended)
	// Output: 1 2 3 EOF
}

func secure(certificate, key string) (*session.Server, error) {
	certificates, err := transport.LoadCertificates([]transport.CertificateFiles{{Certificate: certificate, Key: key}}, nil)
	if err != nil {
		return nil, err
	}
	return session.NewServer(codec.Line{}, &session.Handler{Message: echo}, &session.Options{TLS: certificates.Config()}), nil
}

// A server reads its certificate from files, and clients verify it.
func TestTLS(t *testing.T) {
	certificate, key, roots := makeCertificate(t)
	srv, err := secure(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	address := ln.Addr().String()

	s, err := session.Dial(ctx, "tcp", address, codec.Line{}, &session.Options{TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if msg, err := s.Receive(ctx); err != nil || string(msg) != "hello" {
		t.Errorf("got %q, %v", msg, err)
	}
	if _, err := session.Dial(ctx, "tcp", address, codec.Line{}, &session.Options{TLS: &tls.Config{}}); err == nil {
		t.Error("a certificate that nobody knows was accepted")
	}
}

// makeCertificate makes a self-signed certificate for 127.0.0.1.
func makeCertificate(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	parsed, err := x509.ParseCertificate(public)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", secret), roots
}

// A Unix socket works like any other listener.
func TestUnix(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "s")
	srv := session.NewServer(codec.Line{}, &session.Handler{Message: echo}, nil)
	defer srv.Close()

	ln, err := transport.Listen(ctx, "unix", path, &transport.Options{Mode: 0o660})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()

	s, err := session.Dial(ctx, "unix", path, codec.Line{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if msg, err := s.Receive(ctx); err != nil || string(msg) != "hello" {
		t.Errorf("got %q, %v", msg, err)
	}
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := transport.NewMemory(0)
		srv := session.NewServer(codec.Line{}, nil, &session.Options{IdleTimeout: time.Hour})
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()

		conn, err := ln.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("hello\n")) // before its first message a client has FirstTimeout
		begin := time.Now()
		if n, _ := conn.Read(make([]byte, 1)); n != 0 { // waits an hour that takes no time
			t.Error("the server said something")
		}
		if silence := time.Since(begin); silence < time.Hour || silence > 2*time.Hour {
			t.Errorf("ended after %v", silence)
		}
	})
}

// A server pings its peers and ends sessions that do not answer.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := session.NewServer(codec.Line{}, &session.Handler{
			Tick: func(s *session.Session) { _ = s.Send([]byte("ping")) },
		}, &session.Options{TickInterval: 20 * time.Second, IdleTimeout: time.Minute})

		conn, stop := serve(srv)
		defer stop()
		_, _ = conn.Write([]byte("hello\n"))
		all := make([]byte, 0, 100)
		for {
			n, err := conn.Read(all[len(all):cap(all)])
			all = all[:len(all)+n]
			if err != nil {
				break
			}
		}
		if got := string(all); got != "ping\nping\n" && got != "ping\nping\nping\n" {
			t.Errorf("got %q before the end", got)
		}
	})
}
