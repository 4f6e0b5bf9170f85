package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-push/sluice/internal/filestate"
)

// Certificates are a server's certificates. They are read from files, and read again when the files have changed, without a restart. No
// goroutine watches the files: a handshake checks them if the last check is some time ago. All methods may be called by any goroutine at any
// time.
type Certificates struct {
	// Set at LoadCertificates.
	every  time.Duration
	logger *slog.Logger

	current atomic.Pointer[[]*tls.Certificate] // one certificate for each pair
	checked atomic.Int64                       // when the files were checked, in nanoseconds since start
	start   time.Time

	mu    sync.Mutex // held while files are read; a handshake that finds it locked uses the current certificates
	pairs []pair

	clients *clientCA // nil: clients are not asked for certificates
}

// CertificateFiles are the paths of a certificate, followed by the intermediate ones, and of its key, both in PEM. They may be the same file.
type CertificateFiles struct {
	Certificate, Key string
}

// CertificatesOptions configure when files are read again.
type CertificatesOptions struct {
	// CheckEvery is the shortest time between two checks for changed files. Zero means 1 s. If it is negative, no handshake checks, and only
	// Reload reads.
	CheckEvery time.Duration
	// Logger gets a record of each changed file that is used or broken. Nil discards the records.
	Logger *slog.Logger
	// ClientCA is the path of a file with certificates in PEM, one of which has to have signed the certificate that a client shows, or an intermediate
	// one that the client shows besides. It is read again when it changes. If it is empty, clients are not asked for certificates.
	ClientCA string
	// RequireClient refuses clients that show no certificate. It needs ClientCA.
	RequireClient bool
}

// defaultCheck is the default of CheckEvery.
const defaultCheck = time.Second

// pair is one certificate. The mutex of Certificates guards it.
type pair struct {
	files     CertificateFiles
	cert, key filestate.State // of the files that were read last
	broken    bool            // the files could not be used
}

// LoadCertificates reads all pairs, at least one. The first certificate is also for clients that ask for no name, or for one that no certificate
// has.
func LoadCertificates(files []CertificateFiles, o *CertificatesOptions) (*Certificates, error) {
	c := &Certificates{every: defaultCheck, logger: slog.New(slog.DiscardHandler), start: time.Now()}
	if o != nil {
		if o.CheckEvery != 0 {
			c.every = o.CheckEvery
		}
		if o.Logger != nil {
			c.logger = o.Logger
		}
		if o.ClientCA != "" {
			c.clients = &clientCA{path: o.ClientCA, required: o.RequireClient}
		}
	}
	if len(files) == 0 {
		return nil, errors.New("transport: no certificates")
	}
	for _, f := range files {
		c.pairs = append(c.pairs, pair{files: f})
	}
	c.current.Store(new(make([]*tls.Certificate, len(files))))
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns a configuration for servers with these certificates. The caller owns it and may change it. Certificates of clients are checked by
// VerifyConnection, so that the checked certificate is the first of tls.ConnectionState.PeerCertificates, and VerifiedChains is empty.
func (c *Certificates) Config() *tls.Config {
	config := &tls.Config{GetCertificate: c.GetCertificate}
	if c.clients != nil {
		config.ClientAuth = tls.RequestClientCert
		if c.clients.required {
			config.ClientAuth = tls.RequireAnyClientCert
		}
		config.ClientCAs = c.clients.pool.Load() // only to tell clients which certificate to show
		config.VerifyConnection = c.verifyClient
	}
	return config
}

// GetCertificate returns the certificate for a client: the first one that the client can use and that is valid for the requested name, otherwise
// the first of all. It is for tls.Config.GetCertificate.
func (c *Certificates) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.check()
	current := *c.current.Load()
	if len(current) > 1 {
		for _, cert := range current {
			if hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
	}
	return current[0], nil
}

// Reload reads all files now. If a certificate cannot be read or does not fit its key, the error says so, and the old certificate stays in use.
// The other certificates are replaced.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := append([]*tls.Certificate(nil), *c.current.Load()...)
	var errs []error
	for i := range c.pairs {
		cert, err := c.pairs[i].load()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		next[i] = cert
	}
	c.current.Store(&next)
	if c.clients != nil {
		errs = append(errs, c.clients.load())
	}
	return errors.Join(errs...)
}

// check reads files that have changed, if the last check is long enough ago.
func (c *Certificates) check() {
	now, last := int64(time.Since(c.start)), c.checked.Load()
	if c.every < 0 || now-last < int64(c.every) || !c.checked.CompareAndSwap(last, now) || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	var next []*tls.Certificate
	for i := range c.pairs {
		p := &c.pairs[i]
		changed := p.hasChanged()
		if !changed && !p.broken {
			continue
		}
		cert, err := p.load() // a broken file may have been read while it was written: read it again each time, but report it once
		switch {
		case err == nil:
			if next == nil {
				next = append(next, *c.current.Load()...)
			}
			next[i] = cert
			c.logger.Info("transport: certificate reloaded", "file", p.files.Certificate, "expires", cert.Leaf.NotAfter)
		case changed:
			c.logger.Error("transport: new certificate rejected, old one kept", "error", err)
		}
	}
	if next != nil {
		c.current.Store(&next)
	}
	if c.clients != nil {
		c.clients.check(c.logger)
	}
}

// load reads the files of the pair.
func (p *pair) load() (*tls.Certificate, error) {
	p.cert, p.key = filestate.Of(p.files.Certificate), filestate.Of(p.files.Key) // before reading: a change meanwhile is found at the next check
	cert, err := tls.LoadX509KeyPair(p.files.Certificate, p.files.Key)
	p.broken = err != nil
	if err != nil {
		return nil, fmt.Errorf("transport: certificate %s: %w", p.files.Certificate, err)
	}
	return &cert, nil
}

// hasChanged reports whether the files have changed since they were read.
func (p *pair) hasChanged() bool {
	return !p.cert.Equal(filestate.Of(p.files.Certificate)) || !p.key.Equal(filestate.Of(p.files.Key))
}
