package jwks_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-push/sluice/push/auth"
	"github.com/sluice-push/sluice/push/auth/jwks"
)

// provider is an identity provider in memory. It is a [http.RoundTripper].
type provider struct {
	mu       sync.Mutex
	status   int
	body     string
	fault    error
	delay    time.Duration // negative: it never answers
	linger   time.Duration // how long a request goes on that is given up
	requests []time.Time
	canceled int
}

// RoundTrip implements [http.RoundTripper].
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.requests = append(p.requests, time.Now())
	status, body, fault, delay, linger := p.status, p.body, p.fault, p.delay, p.linger
	p.mu.Unlock()
	var late <-chan time.Time
	if delay >= 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-late:
	case <-r.Context().Done():
		p.set(func() { p.canceled++ })
		<-time.After(linger)
		return nil, r.Context().Err()
	}
	if fault != nil {
		return nil, fault
	}
	header := http.Header{"Location": {"https://elsewhere.example/"}}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// serve sets the answer of the provider.
func (p *provider) serve(body string) {
	p.set(func() { p.status, p.body, p.fault, p.delay = 200, body, nil, 0 })
}

// fail has the provider fail.
func (p *provider) fail(err error) { p.set(func() { p.fault = err }) }

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// count returns how many requests there were.
func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// client returns a client of the provider that takes answers as they are.
func (p *provider) client() *http.Client {
	return &http.Client{Transport: p, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// start returns a client of a provider, which is closed at the end of the test. Its log is returned too.
func start(t *testing.T, p *provider) (*jwks.Client, *logged) {
	t.Helper()
	log := new(logged)
	c := jwks.Start(jwks.Options{URL: "https://user:pass" + "word@id.example/keys", HTTP: p.client(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(c.Close)
	return c, log
}

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns what was written.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines returns how many lines have a text.
func (l *logged) lines(text string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// outcome is what Find says: found, or the reason of the error, and how long it took.
func outcome(t *testing.T, c *jwks.Client, kid string) (string, time.Duration) {
	t.Helper()
	began := time.Now()
	keys, err := c.Find(t.Context(), "EdDSA", kid)
	took := time.Since(began)
	var refused *auth.Error
	switch {
	case err == nil && len(keys) > 0:
		return "found", took
	case !errors.As(err, &refused) || keys != nil:
		t.Fatalf("keys %v, error %v", keys, err)
	}
	return refused.Reason.String(), took
}

// want checks the outcome of Find, and that it took a certain time.
func want(t *testing.T, c *jwks.Client, kid, result string, took time.Duration) {
	t.Helper()
	if got, after := outcome(t, c, kid); got != result || after != took {
		t.Errorf("kid %q: %s after %v, want %s after %v", kid, got, after, result, took)
	}
}

// edKey is a key with an ID.
func edKey(kid string) string { return entry(mustEd25519(), member{"kid", kid}) }

var errDown = errors.New("connection refused")

// pass lets time pass, in a bubble, until nothing happens any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
