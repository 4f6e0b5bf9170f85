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
	fmt.Fprint(client, "nobody reads yet") // and yet this returns
	_ = client.Close()

	server, err := ln.Accept()
	if err != nil {
		panic(err)
	}
	text, _ := io.ReadAll(server)
	fmt.Println(string(text))
	// Output: nobody reads yet
}

// An event loop takes connections as descriptors; whoever wants to look at one makes a connection of it.
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

// A server that answers whole batches of datagrams: what was read is written back, to whom it came from.
func ExamplePacketConn_ReadBatch() {
	ctx := context.Background()
	server, err := transport.ListenPacket(ctx, "udp", "127.0.0.1:0", &transport.PacketOptions{ReadBuffer: 1 << 20})
	if err != nil {
		panic(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ps := make([]transport.Packet, 64)
		for i := range ps {
			ps[i].Data = make([]byte, 1500)
		}
		for {
			n, err := server.ReadBatch(ps)
			if err != nil {
				return // closed
			}
			_, _ = server.TryWriteBatch(ps[:n]) // whoever misses an answer asks again
		}
	}()

	client, err := transport.DialPacket(ctx, "udp", server.LocalAddr().String(), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	fmt.Fprint(client, "hello")
	answer := make([]byte, 100)
	n, err := client.Read(answer)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(answer[:n]))
	_ = server.Close()
	<-stopped
	// Output: hello
}

// What was written before the end is still read, as over TCP; net.Pipe would wait for a reader.
func ExamplePipe() {
	a, b := transport.Pipe(0)
	fmt.Fprint(a, "request")
	_ = a.CloseWrite() // nothing more comes, and the answer can still be read

	request, _ := io.ReadAll(b)
	fmt.Fprintf(b, "answer to %s", request)
	_ = b.Close()

	answer, err := io.ReadAll(a)
	fmt.Printf("%s %v\n", answer, err)
	_ = a.Close()
	// Output: answer to request <nil>
}

// A load balancer on this machine says whose connections it forwards. Others are refused, whatever they say.
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
	line, err := bufio.NewReader(conn).ReadString('\n') // does
	fmt.Printf("%q from %v, %v\n", line, conn.RemoteAddr(), err)
	// Output: "hello\n" from 192.0.2.7:40000, <nil>
}

// A server whose certificates may be replaced while it runs.
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
		fmt.Println(certificates.Reload())             // or a second later by itself
	}
	// Output:
	// hello
	// <nil>
	// hello
	// <nil>
}

// writeCertificate writes a new key and a certificate that is its own root.
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
