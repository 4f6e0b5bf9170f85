// Package jwks has the keys of tokens that an identity provider publishes at a URL, as a JSON Web Key Set (RFC 7517). Keys may change there at any
// time: a [Client] fetches the set again when it is old, and at once when a token names a key that it does not know.
package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sluice-push/sluice/push/auth"
)

// Options are a client's settings. Zero means the default.
type Options struct {
	// URL is where the set is.
	URL string
	// HTTP makes the requests. Nil means a client that follows no redirects, keeps no connections, and uses the proxy that the environment names
	// (HTTPS_PROXY). A client that follows redirects takes the keys from wherever they lead.
	HTTP *http.Client
	// Refresh is how often the set is fetched again; default 5 minutes. After a failure the next try comes sooner: after Pause, then after twice
	// as long each time, up to Refresh.
	Refresh time.Duration
	// Pause is the shortest time between the beginnings of two requests, whatever tokens come; default 5 s. If Refresh is shorter, it is Pause.
	Pause time.Duration
	// Timeout bounds a request; default 5 s.
	Timeout time.Duration
	// Logger gets a line when the set cannot be fetched, when it can again, and for each key that is left out; nil discards.
	Logger *slog.Logger
}

// mostBytes bounds an answer.
const mostBytes = 1 << 20

// Client fetches a set and keeps it. It implements [auth.Keys]. Its methods may be called concurrently.
type Client struct {
	options Options
	name    string        // of the URL, for the log: without a password
	wanted  chan struct{} // asks run for a request; capacity 1
	stop    context.CancelFunc
	stopped chan struct{}

	skipped string // owned by run: why keys of the last good set were left out; empty if none was

	mu      sync.Mutex    // guards what follows
	keys    []Key         // the last good set; nil until there is one
	began   time.Time     // when the last request began
	running bool          // it has not ended
	closed  bool          // there will be no other request
	ended   chan struct{} // closed when the running request ends, or the next one if none is running
	failed  error         // of the last request that has ended
}

// Start returns a client, and begins the first request. The caller calls Close in the end. A server that cannot be reached is no error: until it
// can, tokens are refused with auth.Unavailable.
func Start(o Options) *Client {
	o = o.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{options: o, wanted: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}), ended: make(chan struct{})}
	if u, err := url.Parse(o.URL); err == nil {
		c.name = u.Redacted()
	}
	go c.run(ctx)
	return c
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		o.HTTP = &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Pause <= 0 {
		o.Pause = 5 * time.Second
	}
	if o.Refresh <= 0 {
		o.Refresh = 5 * time.Minute
	}
	o.Refresh = max(o.Refresh, o.Pause)
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Close ends the client, with the request that is under way, and waits for its goroutine. It may be called several times. Find goes on with the last
// good set.
func (c *Client) Close() {
	c.stop()
	<-c.stopped
}

// run owns the requests: one at a time.
func (c *Client) run(ctx context.Context) {
	defer close(c.stopped)
	defer func() { // calls of Find that wait get what there is
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		close(c.ended)
	}()
	pause := c.options.Pause
	for {
		wait := c.options.Refresh
		if err := c.fetch(ctx); err != nil && ctx.Err() == nil {
			wait = pause
			pause = min(2*pause, c.options.Refresh)
		} else {
			pause = c.options.Pause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.wanted:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// fetch makes one request, and wakes the calls of Find that wait for it.
func (c *Client) fetch(ctx context.Context) error {
	c.begin()
	keys, skipped, err := c.get(ctx)
	if ctx.Err() != nil {
		return err // Close is no failure
	}
	c.log(keys, skipped, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.keys = keys
	}
	c.failed, c.running = err, false
	close(c.ended)
	c.ended = make(chan struct{})
	return err
}

// log reports what has changed since the last request. Only the goroutine of run calls it, which alone writes the fields.
func (c *Client) log(keys []Key, skipped []error, err error) {
	log := c.options.Logger
	if err != nil {
		if c.failed == nil {
			log.Warn("cannot fetch the keys of tokens, will try again", "url", c.name, "error", err, "keys", len(c.keys))
		}
		return
	}
	if c.failed != nil {
		log.Info("fetched the keys of tokens again", "url", c.name, "keys", len(keys))
	}
	why := ""
	if err := errors.Join(skipped...); err != nil {
		why = err.Error()
	}
	if why != c.skipped && why != "" {
		log.Warn("keys of tokens are left out", "url", c.name, "reasons", why)
	}
	c.skipped = why
}

// begin notes that a request begins. Calls of Find that have asked for one wait for this one: otherwise the next one came too soon.
func (c *Client) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.running = time.Now(), true
	select {
	case <-c.wanted:
	default:
	}
}

func (c *Client) get(ctx context.Context) (keys []Key, skipped []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.options.URL, http.NoBody)
	if err != nil {
		if wrong := new(url.Error); errors.As(err, &wrong) {
			err = wrong.Err // wrong has the URL, perhaps with a password
		}
		return nil, nil, fmt.Errorf("the URL is not valid: %w", err)
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := c.options.HTTP.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the server answers %s", answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(body) > mostBytes {
		return nil, nil, fmt.Errorf("the answer has more than %d bytes", mostBytes)
	}
	return Parse(body)
}

// Find implements [auth.Keys]. When no key fits, the set may be older than the token: Find then waits for a request, if none was made within
// Options.Pause; otherwise it refuses the token with auth.Unavailable, so that its client tries again. A flood of tokens with made-up IDs
// causes one request each pause, and keeps nobody else waiting.
func (c *Client) Find(ctx context.Context, algorithm, kid string) ([]any, error) {
	keys, wait, err := c.look(algorithm, kid)
	if wait == nil {
		return keys, err
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return nil, &auth.Error{Reason: auth.Unavailable, Cause: ctx.Err()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(algorithm, kid, c.failed == nil && !c.closed)
}

// look returns the keys, or the request that may find them, or why there are none and none can be asked for.
func (c *Client) look(algorithm, kid string) (keys []any, ended <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys, err = c.findLocked(algorithm, kid, false)
	switch {
	case err == nil:
		return keys, nil, nil
	case c.closed:
		return nil, nil, err
	case c.keys == nil && c.failed == nil:
		return nil, c.ended, nil // the first request is on its way
	case c.running || time.Since(c.began) < c.options.Pause: // one that runs may be older than the token
		return nil, nil, err
	}
	select {
	case c.wanted <- struct{}{}:
	default: // another call has asked
	}
	return nil, c.ended, nil
}

// findLocked returns the keys of the set that fit. isNew says that the set is newer than the token, so that a key that is not there does not exist.
func (c *Client) findLocked(algorithm, kid string, isNew bool) ([]any, error) {
	var keys []any
	for i := range c.keys {
		if k := &c.keys[i]; k.fits(algorithm, kid) && len(keys) < auth.MostKeys {
			keys = append(keys, k.Public)
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case c.keys == nil:
		return nil, &auth.Error{Reason: auth.Unavailable, Cause: errors.New("the keys of tokens could not be fetched yet")}
	case isNew:
		return nil, &auth.Error{Reason: auth.UnknownKey, Cause: fmt.Errorf("no key of the set has the ID %q and the algorithm %s", kid, algorithm)}
	}
	return nil, &auth.Error{Reason: auth.Unavailable, Cause: fmt.Errorf("no key has the ID %q and the algorithm %s, and the set cannot be fetched again at the moment", kid, algorithm)}
}
