package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is one for 127.0.0.1, in two files, and who trusts it.
type certificate struct {
	folder, cert, key string
	roots             *x509.CertPool
}

// newCertificate makes a certificate of ECDSA P-256 that signs itself. The caller calls remove.
func newCertificate() (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	c := &certificate{folder: folder, cert: filepath.Join(folder, "cert.pem"), key: filepath.Join(folder, "key.pem"), roots: x509.NewCertPool()}
	pair := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.roots.AppendCertsFromPEM(pair)
	err = errors.Join(
		os.WriteFile(c.cert, pair, 0o600),
		os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	if err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// config returns the configuration of clients that trust the certificate. They ask for HTTP/1.1, as browsers do for WebSocket.
func (c *certificate) config() *tls.Config {
	return &tls.Config{RootCAs: c.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}}
}

func (c *certificate) remove() { _ = os.RemoveAll(c.folder) }
