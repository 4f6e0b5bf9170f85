package drain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"
)

// Command is sluice drain: it drains a node.
type Command struct {
	Internal string         `default:"127.0.0.1:9000" env:"SLUICE_INTERNAL" help:"The node's internal address: host:port or a URL."`
	Delay    *time.Duration `help:"Time for which the node goes on, but is not ready: 0s to 1h. Default: shutdown.delay of the node."`
	Spread   *time.Duration `help:"Time over which the clients are asked to connect again: 0s to 1h. Default: shutdown.spread of the node."`
	Wait     bool           `help:"Wait until the process of the node has ended, and print what it does."`
	CA       string         `type:"existingfile" help:"PEM file with the certificates that sign that of the node, if internal_tls is set. Default: those of the system."`
	Cert     string         `type:"existingfile" help:"PEM file with a client certificate, which a node on another machine requires."`
	Key      string         `type:"existingfile" help:"PEM file with the private key of the certificate. Default: it is in the same file."`
}

// Help is shown by sluice drain --help.
func (Command) Help() string {
	return "The node does what it does after SIGTERM: for --delay it goes on, but /health/ready says no. Then it admits no clients, and asks those it has to " +
		"connect again, evenly over --spread. Then it ends, with exit code 0. SIGTERM ends both times. If the node drains already, the command says how far " +
		"it is, and changes nothing. It has to run on the node's machine, or to show a client certificate that internal_tls.client_ca of the node has signed."
}

// Validate implements kong.Validatable.
func (c *Command) Validate() error {
	for flag, d := range map[string]*time.Duration{"--delay": c.Delay, "--spread": c.Spread} {
		if d == nil {
			continue
		}
		if err := checkTime(*d); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if c.Key != "" && c.Cert == "" {
		return errors.New("--key is the key of a client certificate: add --cert")
	}
	_, err := c.base()
	return err
}

// base returns the URL of the internal address. An address without a host, as a node listens on it, is on this machine.
func (c *Command) base() (string, error) {
	if strings.Contains(c.Internal, "://") {
		u, err := url.Parse(c.Internal)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("--internal %q is not a URL such as http://127.0.0.1:9000", c.Internal)
		}
		return u.Scheme + "://" + u.Host, nil
	}
	host, port, err := net.SplitHostPort(c.Internal)
	if err != nil || port == "" {
		return "", fmt.Errorf("--internal %q is not an address such as 127.0.0.1:9000: it is the setting \"internal\" of the node", c.Internal)
	}
	switch ip, _ := netip.ParseAddr(host); {
	case host == "", ip == netip.IPv4Unspecified():
		host = "127.0.0.1"
	case ip == netip.IPv6Unspecified():
		host = "::1"
	}
	scheme := "http"
	if c.CA != "" || c.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// Run requests the drain, and prints what the node does. ^C ends it, and not the drain.
func (c *Command) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	base, err := c.base()
	if err != nil {
		return err
	}
	transport, err := c.transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	query := url.Values{}
	if c.Delay != nil {
		query.Set("delay", c.Delay.String())
	}
	if c.Spread != nil {
		query.Set("spread", c.Spread.String())
	}
	if c.Wait {
		query.Set("wait", "true")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+Path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w; check that a node has its internal address there", base, errors.Unwrap(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errorOf(base, resp)
	}
	return c.follow(ctx, out, base, json.NewDecoder(resp.Body))
}

// transport returns what connects to the node. Over HTTP/2, the end of the process would not be the end of the answer.
func (c *Command) transport() (*http.Transport, error) {
	const timeout = 30 * time.Second
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		Protocols:       new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		key := c.Key
		if key == "" {
			key = c.Cert
		}
		cert, err := tls.LoadX509KeyPair(c.Cert, key)
		if err != nil {
			return nil, fmt.Errorf("cannot load the client certificate: %w", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// errorOf returns the error for an answer that is not status 200.
func errorOf(base string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what was read is better than nothing
	reason, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	switch {
	case strings.Contains(reason, "HTTP request to an HTTPS server"):
		return fmt.Errorf("%s uses TLS: write the address as https://HOST:PORT", base)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s does not know %s: check that it is the internal address of a node", base, Path)
	}
	return fmt.Errorf("%s refused (%s): %s", base, resp.Status, reason)
}

// follow prints the answer of the node: one report, or with --wait those of all states, until the process has ended.
func (c *Command) follow(ctx context.Context, out io.Writer, base string, in *json.Decoder) error {
	var r Report
	for isFirst := true; ; isFirst = false {
		switch err := in.Decode(&r); {
		case err == nil && r.State != None:
			if _, err := fmt.Fprintln(out, r.text(isFirst)); err != nil {
				return err
			}
			if !c.Wait {
				return nil
			}
		case isFirst:
			return fmt.Errorf("%s answered, but not as a node does: check that it is the internal address of a node", base)
		case r.State == Ended && r.Error != "":
			return fmt.Errorf("the node has ended with an error: %s", r.Error)
		case r.State == Ended:
			return nil
		case ctx.Err() != nil:
			return errors.New("interrupted: the node goes on draining")
		default:
			return fmt.Errorf("the connection broke before the node said that it has ended (%w): check whether the node runs", err)
		}
	}
}

// text returns what a report says, for people.
func (r *Report) text(isFirst bool) string {
	switch {
	case r.State == Ended:
		return "the node has ended"
	case isFirst && r.Started:
		return fmt.Sprintf("draining %d clients: delay %v, spread %v, then the node ends", r.ClientsAtStart, r.Delay, r.Spread)
	case isFirst:
		return fmt.Sprintf("the node drains already, for %v: %d of %d clients are left; delay %v, spread %v", r.Elapsed, r.Clients, r.ClientsAtStart, r.Delay, r.Spread)
	case r.State == Spread:
		return fmt.Sprintf("asking %d clients to connect again", r.Clients)
	default:
		return fmt.Sprintf("shutting down, %d clients are left", r.Clients)
	}
}
