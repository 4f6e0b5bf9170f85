package transport_test

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
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// A listener with options, and a client.
func Example() {
	ctx := context.Background()
	ln, err := transport.Listen(ctx, "tcp", "127.0.0.1:0", &transport.Options{NotSentLowat: 64 << 10})
	if err != nil {
		panic(err)
	}
	defer ln.Close()

	client, err := transport.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	fmt.Fprintln(client, "hello")
	line, _ := bufio.NewReader(server).ReadString('\n')
	fmt.Print(line, ln.Stats().Accepted)
	// Output:
	// hello
	// 1
}

// A server under test listens in memory.
func ExampleMemoryListener() {
	ln := transport.NewMemory(0)
	defer ln.Close()
	client, err := ln.Dial(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(client, "no reader yet") // Write returns nevertheless
	_ = client.Close()

	server, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(server)
	fmt.Println(string(text))
	// Output: no reader yet
}

// An event loop accepts connections as descriptors. To inspect a connection, the program makes a net.Conn of its descriptor.
func ExampleListener_AcceptDescriptor() {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ln, err := transport.Wrap(tcp, nil)
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	if !ln.Plain() { // not on this system
		fmt.Println("hello")
		return
	}

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(client, "hello\n")
	_ = client.Close()

	d, err := ln.AcceptDescriptor()
	if err != nil {
		panic(err)
	}
	defer d.Close()
	conn, err := transport.Attach(d)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	text, _ := io.ReadAll(conn)
	fmt.Print(string(text))
	// Output: hello
}

// Bytes written before the end are still read, as over TCP. net.Pipe would wait for a reader.
func ExamplePipe() {
	a, b := transport.Pipe(0)
	fmt.Fprint(a, "request")
	_ = a.CloseWrite() // nothing more follows, but the answer can still be read

	request, _ := io.ReadAll(b)
	fmt.Fprintf(b, "answer to %s", request)
	_ = b.Close()

	answer, err := io.ReadAll(a)
	fmt.Printf("%s %v\n", answer, err)
	_ = a.Close()
	// Output: answer to request <nil>
}

// A load balancer on this machine sends the addresses of the connections that it forwards. Other peers are refused, whatever they send.
func ExampleProxy() {
	ctx := context.Background()
	ln, err := transport.Listen(ctx, "tcp", "127.0.0.1:0", &transport.Options{
		Proxy: &transport.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Required: true},
	})
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	balancer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	defer balancer.Close()
	fmt.Fprint(balancer, "PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\nhello\n")

	conn, err := ln.Accept() // does not wait for the header
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n') // waits for the header
	fmt.Printf("%q from %v, %v\n", line, conn.RemoteAddr(), err)
	// Output: "hello\n" from 192.0.2.7:40000, <nil>
}

// A server whose certificates can be replaced while it runs.
func ExampleLoadCertificates() {
	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	files := transport.CertificateFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	roots := writeCertificate(files, "example.com")

	certificates, err := transport.LoadCertificates([]transport.CertificateFiles{files}, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	ln, err := transport.Listen(ctx, "tcp", "127.0.0.1:0", &transport.Options{TLS: certificates.Config()})
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "hello") // with the handshake
			_ = conn.Close()
		}
	}()

	for range 2 {
		conn, err := transport.Dial(ctx, "tcp", ln.Addr().String(), &transport.Options{
			TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"},
		})
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(conn)
		_ = conn.Close()
		fmt.Printf("%s\n", text)

		roots = writeCertificate(files, "example.com") // a new certificate, with a new key
		fmt.Println(certificates.Reload())             // otherwise a handshake finds it, a second later
	}
	// Output:
	// hello
	// <nil>
	// hello
	// <nil>
}

// writeCertificate writes a new key and a self-signed certificate, and returns a pool that contains it.
func writeCertificate(files transport.CertificateFiles, name string) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	for file, content := range map[string][]byte{
		files.Certificate: public,
		files.Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			panic(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public)
	return roots
}
