package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Certificates are a server's certificates, read from files and read again when the files have changed, without a restart. All methods
// may be called by any goroutine at any time. There is no goroutine that watches: a handshake looks at the files if nobody has for a
// while.
type Certificates struct {
	// Set at LoadCertificates.
	every  time.Duration
	logger *slog.Logger

	current atomic.Pointer[[]*tls.Certificate] // one for each pair
	checked atomic.Int64                       // when the files were looked at, in nanoseconds since start
	start   time.Time

	mu    sync.Mutex // held while files are read; a handshake that finds it taken goes on with what there is
	pairs []pair
}

// CertificateFiles are the paths of a certificate, followed by the intermediate ones, and its key, both in PEM. They may be the same
// file.
type CertificateFiles struct {
	Certificate, Key string
}

// CertificatesOptions say when files are read again.
type CertificatesOptions struct {
	// CheckEvery is how often, at most, a handshake looks whether files have changed. Zero is 1 s; negative never looks, then only
	// Reload reads.
	CheckEvery time.Duration
	// Logger gets the news of changed files: those that were taken, and those that are broken. Nil discards it.
	Logger *slog.Logger
}

// defaultCheck is how often files are looked at.
const defaultCheck = time.Second

// pair is one certificate, guarded by mu.
type pair struct {
	files     CertificateFiles
	cert, key fs.FileInfo // of what was read last
	broken    bool        // it could not be used
}

// LoadCertificates reads all pairs, of which there must be one at least. The first is the certificate for clients that ask for no
// name, or for one that nobody has.
func LoadCertificates(files []CertificateFiles, o *CertificatesOptions) (*Certificates, error) {
	c := &Certificates{every: defaultCheck, logger: slog.New(slog.DiscardHandler), start: time.Now()}
	if o != nil {
		if o.CheckEvery != 0 {
			c.every = o.CheckEvery
		}
		if o.Logger != nil {
			c.logger = o.Logger
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

// Config returns a configuration for servers that shows these certificates. It is the caller's, to be completed.
func (c *Certificates) Config() *tls.Config { return &tls.Config{GetCertificate: c.GetCertificate} }

// GetCertificate returns the certificate for a client, as tls.Config.GetCertificate wants it: the first that the client can use and
// that is valid for the name it asks for.
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

// Reload reads all files now. A certificate that cannot be read, or does not fit its key, is part of the error, and the one before
// stays in use; the others are used.
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
	return errors.Join(errs...)
}

// check reads files that have changed, if it is time to look.
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
		cert, err := p.load() // what is broken may have been read while it was written: again each time, but reported once
		switch {
		case err == nil:
			if next == nil {
				next = append(next, *c.current.Load()...)
			}
			next[i] = cert
			c.logger.Info("transport: new certificate", "file", p.files.Certificate, "expires", cert.Leaf.NotAfter)
		case changed:
			c.logger.Error("transport: new certificate is not usable, the old one stays", "error", err)
		}
	}
	if next != nil {
		c.current.Store(&next)
	}
}

// load reads the pair.
func (p *pair) load() (*tls.Certificate, error) {
	p.cert, p.key = stat(p.files.Certificate), stat(p.files.Key) // before reading: a change meanwhile is seen the next time
	cert, err := tls.LoadX509KeyPair(p.files.Certificate, p.files.Key)
	p.broken = err != nil
	if err != nil {
		return nil, fmt.Errorf("transport: certificate %s: %w", p.files.Certificate, err)
	}
	return &cert, nil
}

// hasChanged reports whether the files are others than those that were read.
func (p *pair) hasChanged() bool {
	return isOther(p.cert, stat(p.files.Certificate)) || isOther(p.key, stat(p.files.Key))
}

// stat returns what identifies the content of a file, nil when there is none.
func stat(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

func isOther(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a != b
	}
	return !os.SameFile(a, b) || !a.ModTime().Equal(b.ModTime()) || a.Size() != b.Size()
}
