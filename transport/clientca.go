package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/sluice-push/sluice/internal/filestate"
)

// clientCA has the certificates that sign those of clients. The mutex of Certificates guards all but the pool.
type clientCA struct {
	path     string
	required bool
	pool     atomic.Pointer[x509.CertPool]

	file   filestate.State // that was read last
	broken bool            // the file could not be used
}

// load reads the file.
func (a *clientCA) load() error {
	a.file = filestate.Of(a.path) // before reading: a change meanwhile is found at the next check
	a.broken = true
	text, err := os.ReadFile(a.path)
	if err != nil {
		return fmt.Errorf("transport: certificates of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("transport: certificates of clients: %s has no certificate in PEM", a.path)
	}
	a.broken = false
	a.pool.Store(pool)
	return nil
}

// check reads the file if it has changed. A broken one may have been read while it was written: it is read again each time, and reported once.
func (a *clientCA) check(log *slog.Logger) {
	changed := !a.file.Equal(filestate.Of(a.path))
	if !changed && !a.broken {
		return
	}
	switch err := a.load(); {
	case err == nil:
		log.Info("transport: certificates of clients reloaded", "file", a.path)
	case changed:
		log.Error("transport: new certificates of clients rejected, old ones kept", "error", err)
	}
}

// verifyClient is for tls.Config.VerifyConnection, which crypto/tls calls also when a session is resumed: its certificate may have become invalid since.
func (c *Certificates) verifyClient(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil // tls.Config.ClientAuth has decided
	}
	c.check()
	o := x509.VerifyOptions{Roots: c.clients.pool.Load(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, cert := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}
