package transport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/internal/testwait"
	"github.com/sluice-push/sluice/transport"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// issued is a certificate that an authority has issued.
type issued struct {
	pair      tls.Certificate
	authority *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, next: 1}
}

// issue makes a certificate for names and addresses.
func (a *authority) issue(t testing.TB, names ...string) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: names[0]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return issued{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, a.cert}
}

// write writes the certificate and its key to files.
func (c issued) write(t testing.TB, f transport.CertificateFiles) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, f.Certificate, "CERTIFICATE", c.pair.Certificate[0])
	writePEM(t, f.Key, "PRIVATE KEY", key)
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	writeFile(t, path, pemOf(kind, der))
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeFile replaces a file by renaming, so that the file differs even if the clock does not advance.
func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// filesIn returns paths for n certificates.
func filesIn(dir string, n int) (files []transport.CertificateFiles) {
	for i := range n {
		name := filepath.Join(dir, string(rune('a'+i)))
		files = append(files, transport.CertificateFiles{Certificate: name + ".crt", Key: name + ".key"})
	}
	return files
}

// shown returns the serial number of the certificate that a client gets, and checks that the certificate is valid for server.
func shown(t testing.TB, c *transport.Certificates, server string) int64 {
	t.Helper()
	cert, err := c.GetCertificate(&tls.ClientHelloInfo{
		ServerName: server, SupportedVersions: []uint16{tls.VersionTLS13}, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf.SerialNumber.Int64()
}

func TestCertificatesByName(t *testing.T) {
	a, files := newAuthority(t), filesIn(t.TempDir(), 3)
	for i, names := range [][]string{{"first.example"}, {"second.example", "third.example"}, {"*.wild.example"}} {
		a.issue(t, names...).write(t, files[i])
	}
	c, err := transport.LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{
		"": 2, "first.example": 2, "second.example": 3, "third.example": 3, "THIRD.example": 3, "a.wild.example": 4, "a.b.wild.example": 2,
		"stranger.example": 2,
	} {
		if got := shown(t, c, name); got != want {
			t.Errorf("%q gets %d, not %d", name, got, want)
		}
	}
}

func TestCertificatesReload(t *testing.T) {
	a, files := newAuthority(t), filesIn(t.TempDir(), 2)
	a.issue(t, "a.example").write(t, files[0])
	a.issue(t, "b.example").write(t, files[1])
	c, err := transport.LoadCertificates(files, &transport.CertificatesOptions{CheckEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, files[0].Key, []byte("nonsense"))
	a.issue(t, "b.example").write(t, files[1])
	if first, second := shown(t, c, "a.example"), shown(t, c, "b.example"); first != 2 || second != 3 {
		t.Error("read without being told", first, second)
	}
	// One pair is broken and keeps its certificate. The other one is new.
	if err := c.Reload(); err == nil || !strings.Contains(err.Error(), files[0].Certificate) || strings.Contains(err.Error(), files[1].Certificate) {
		t.Error(err)
	}
	if first, second := shown(t, c, "a.example"), shown(t, c, "b.example"); first != 2 || second != 4 {
		t.Error(first, second)
	}
	a.issue(t, "a.example").write(t, files[0])
	if err := c.Reload(); err != nil || shown(t, c, "a.example") != 5 {
		t.Error(err, shown(t, c, "a.example"))
	}
}

func TestCertificatesMissing(t *testing.T) {
	if _, err := transport.LoadCertificates(nil, nil); err == nil {
		t.Error("no certificates at all")
	}
	files := filesIn(t.TempDir(), 2)
	newAuthority(t).issue(t, "a.example").write(t, files[0])
	if _, err := transport.LoadCertificates(files, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Handshakes notice changed files, at most once a second. A broken file is reported once, and used after it is repaired.
func TestCertificatesNoticed(t *testing.T) {
	a, files, log := newAuthority(t), filesIn(t.TempDir(), 1), new(lockedBuffer)
	o := &transport.CertificatesOptions{Logger: slog.New(slog.NewTextHandler(log, nil))}
	a.issue(t, "a.example").write(t, files[0])
	synctest.Test(t, func(t *testing.T) {
		c, err := transport.LoadCertificates(files, o)
		if err != nil {
			t.Fatal(err)
		}
		second := func() { <-time.After(time.Second) }
		check := func(want int64, infos, errors int) {
			t.Helper()
			if got := shown(t, c, "a.example"); got != want || log.count("INFO") != infos || log.count("ERROR") != errors {
				t.Errorf("certificate %d, not %d; %d news of %d, %d errors of %d", got, want, log.count("INFO"), infos, log.count("ERROR"), errors)
			}
		}
		second()
		check(2, 0, 0)
		a.issue(t, "a.example").write(t, files[0])
		check(2, 0, 0) // the files were checked just now
		second()
		check(3, 1, 0)

		next := a.issue(t, "a.example")
		writePEM(t, files[0].Certificate, "CERTIFICATE", next.pair.Certificate[0]) // the key follows later
		for range 3 {
			second()
			check(3, 1, 1)
		}
		next.write(t, files[0])
		second()
		check(4, 2, 1)
		if err := os.Remove(files[0].Key); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			second()
			check(4, 2, 2)
		}
	})
}

// A file that was read while it was written is read again, although its time and size are unchanged.
func TestCertificatesHalfWritten(t *testing.T) {
	a, files := newAuthority(t), filesIn(t.TempDir(), 1)
	a.issue(t, "a.example").write(t, files[0])
	synctest.Test(t, func(t *testing.T) {
		c, err := transport.LoadCertificates(files, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.issue(t, "a.example").write(t, files[0])
		key, err := os.ReadFile(files[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, half := range []int{len(key) / 2, len(key)} {
			text := append(key[:half:half], make([]byte, len(key)-half)...)
			if err := os.WriteFile(files[0].Key, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(files[0].Key, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			want := int64(2)
			if half == len(key) {
				want = 3
			}
			if got := shown(t, c, "a.example"); got != want {
				t.Errorf("certificate %d, not %d, after %d bytes", got, want, half)
			}
		}
	})
}

// A listener uses the new certificate for new connections. Open connections stay.
func TestCertificatesListen(t *testing.T) {
	a, files := newAuthority(t), filesIn(t.TempDir(), 1)
	a.issue(t, "127.0.0.1").write(t, files[0])
	c, err := transport.LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	l := listen(t, "tcp", "127.0.0.1:0", &transport.Options{TLS: c.Config()})
	o := &transport.Options{TLS: &tls.Config{RootCAs: roots}}
	serial := func(c net.Conn) int64 {
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	before, server := connect(t, l, o)
	a.issue(t, "127.0.0.1").write(t, files[0])
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	after, _ := connect(t, l, o)
	if serial(before) != 2 || serial(after) != 3 {
		t.Error(serial(before), serial(after))
	}
	say(t, before, server, "still here")
}

// All methods run at once, for the race detector.
func TestCertificatesAtOnce(t *testing.T) {
	a, files := newAuthority(t), filesIn(t.TempDir(), 1)
	a.issue(t, "a.example").write(t, files[0])
	c, err := transport.LoadCertificates(files, &transport.CertificatesOptions{CheckEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				shown(t, c, "a.example")
			}
		})
	}
	for range 5 {
		a.issue(t, "a.example").write(t, files[0])
		if err := c.Reload(); err != nil {
			t.Error(err)
		}
	}
	testwait.Return(t, wg.Wait)
	if got := shown(t, c, "a.example"); got != 7 {
		t.Error(got)
	}
}
