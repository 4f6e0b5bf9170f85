package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/transport"
)

// clientCA writes a file with the certificates of authorities.
func clientCA(t testing.TB, path string, authorities ...*authority) {
	t.Helper()
	var text []byte
	for _, a := range authorities {
		text = append(text, pemOf("CERTIFICATE", a.cert.Raw)...)
	}
	writeFile(t, path, text)
}

// meet does a handshake, and returns the error of the server and the name of the client's certificate.
func meet(t *testing.T, server, client *tls.Config) (name string, err error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	there, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := tls.Client(there, client)
		if c.Handshake() == nil {
			_, _ = c.Read(make([]byte, 1)) // the ticket comes after the handshake, and the server's refusal
		}
		_ = c.Close()
	}()
	s := tls.Server(here, server)
	if err = s.Handshake(); err == nil {
		if certs := s.ConnectionState().PeerCertificates; len(certs) > 0 {
			name = certs[0].Subject.CommonName
		}
		_, err = s.Write([]byte{0})
	}
	_ = here.Close()
	<-done
	return name, err
}

// Clients show certificates of the authorities in the file, which may change. Also a client that resumes its session is checked.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	own, ours, others := newAuthority(t), newAuthority(t), newAuthority(t)
	files, ca := filesIn(dir, 1), filepath.Join(dir, "clients.crt")
	own.issue(t, "a.example").write(t, files[0])
	roots := x509.NewCertPool()
	roots.AddCert(own.cert)
	ann, bob := ours.issue(t, "ann").pair, others.issue(t, "bob").pair
	for _, required := range []bool{false, true} {
		clientCA(t, ca, ours)
		c, err := transport.LoadCertificates(files, &transport.CertificatesOptions{CheckEvery: -1, ClientCA: ca, RequireClient: required})
		if err != nil {
			t.Fatal(err)
		}
		server := c.Config().Clone() // as net/http does
		check := func(when string, client *tls.Config, name, refusal string) {
			t.Helper()
			got, err := meet(t, server, client)
			if got != name || (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
				t.Errorf("required %t, %s: %q, %v; want %q, %q", required, when, got, err, name, refusal)
			}
		}
		with := func(certs ...tls.Certificate) *tls.Config {
			return &tls.Config{
				ServerName: "a.example", RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1),
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if len(certs) == 0 {
						return &tls.Certificate{}, nil
					}
					return &certs[0], nil // whatever the server asks for
				},
			}
		}
		missing := ""
		if required {
			missing = "client didn't provide a certificate"
		}
		check("none", with(), "", missing)
		first, second := with(ann), with(bob)
		check("ours", first, "ann", "")
		check("ours, resumed", first, "ann", "")
		check("of others", second, "", "unknown authority")
		check("its own", with(selfSigned(t)), "", "unknown authority")

		clientCA(t, ca, ours, others)
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		check("of others, added", second, "bob", "")
		clientCA(t, ca, others)
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		check("ours, removed and resumed", first, "", "unknown authority")
		check("of others, resumed", second, "bob", "")

		for _, broken := range []string{"", "nothing in PEM"} {
			writeFile(t, ca, []byte(broken))
			if err := c.Reload(); err == nil || !strings.Contains(err.Error(), "clients.crt has no certificate in PEM") {
				t.Errorf("broken: %v", err)
			}
			check("with a broken file", second, "bob", "")
		}
		if _, err := transport.LoadCertificates(files, &transport.CertificatesOptions{ClientCA: ca}); err == nil {
			t.Error("a broken file is no error at first")
		}
	}
}

// A changed file is noticed by a handshake, and reported once.
func TestClientCertificatesNoticed(t *testing.T) {
	dir := t.TempDir()
	a, log := newAuthority(t), new(lockedBuffer)
	files, ca := filesIn(dir, 1), filepath.Join(dir, "clients.crt")
	a.issue(t, "a.example").write(t, files[0])
	clientCA(t, ca, a)
	synctest.Test(t, func(t *testing.T) {
		c, err := transport.LoadCertificates(files, &transport.CertificatesOptions{Logger: slog.New(slog.NewTextHandler(log, nil)), ClientCA: ca})
		if err != nil {
			t.Fatal(err)
		}
		check := func(infos, errors int) {
			t.Helper()
			<-time.After(time.Second)
			shown(t, c, "a.example")
			if log.count("INFO") != infos || log.count("ERROR") != errors {
				t.Errorf("%d news of %d, %d errors of %d", log.count("INFO"), infos, log.count("ERROR"), errors)
			}
		}
		check(0, 0)
		clientCA(t, ca, a, a)
		check(1, 0)
		check(1, 0)
		if err := os.Remove(ca); err != nil {
			t.Fatal(err)
		}
		check(1, 1)
		check(1, 1)
		clientCA(t, ca, a)
		check(2, 1)
	})
}

// selfSigned is a certificate that no authority has issued.
func selfSigned(t testing.TB) tls.Certificate {
	a := newAuthority(t)
	return tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key}
}
