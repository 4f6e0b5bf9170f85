// Package nodeclient sends the requests of commands to the internal address of a node.
package nodeclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// Certificates are the flags of commands for an internal address that uses TLS.
type Certificates struct {
	CA   string `type:"existingfile" help:"PEM file with the certificates that sign that of the node, if internal_tls is set. Default: those of the system."`
	Cert string `type:"existingfile" help:"PEM file with a client certificate, if the node requires one."`
	Key  string `type:"existingfile" help:"PEM file with the private key of the certificate. Default: it is in the same file."`
}

// CheckFlags returns an error unless the flags fit together and to an internal address, which is host:port or a URL. It reads no file.
func (c *Certificates) CheckFlags(internal string) error {
	if c.Key != "" && c.Cert == "" {
		return errors.New("--key is the key of a client certificate: add --cert")
	}
	_, err := c.base(internal)
	return err
}

// base returns the URL of an internal address. An address without a host, as a node listens on it, is on this machine.
func (c *Certificates) base(internal string) (string, error) {
	if strings.Contains(internal, "://") {
		u, err := url.Parse(internal)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("--internal %q is not a URL such as http://127.0.0.1:9000", internal)
		}
		return u.Scheme + "://" + u.Host, nil
	}
	host, port, err := net.SplitHostPort(internal)
	if err != nil || port == "" {
		return "", fmt.Errorf("--internal %q is not an address such as 127.0.0.1:9000: it is the setting \"internal\" of the node", internal)
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

// Node is a node that a command sends requests to.
type Node struct {
	// URL is the internal address, with scheme and host.
	URL       string
	transport *http.Transport
}

// Open returns the node with an internal address. Nothing is sent yet. The caller closes the Node.
func (c *Certificates) Open(internal string) (*Node, error) {
	base, err := c.base(internal)
	if err != nil {
		return nil, err
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	return &Node{URL: base, transport: transport}, nil
}

// transport returns what connects to the node. Over HTTP/2, the end of the process would not be the end of the answer.
func (c *Certificates) transport() (*http.Transport, error) {
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

// Close closes the connections to the node that are not in use.
func (n *Node) Close() { n.transport.CloseIdleConnections() }

// Do sends a request without a body, and returns the body of the answer, which the caller closes. An answer without status 200 is an error.
func (n *Node) Do(ctx context.Context, method, path string, query url.Values) (io.ReadCloser, error) {
	target := n.URL + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: n.transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w; check that a node has its internal address there", n.URL, errors.Unwrap(err))
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, n.errorOf(path, resp)
	}
	return resp.Body, nil
}

// NotNode returns the error for an answer with status 200 that no node gives.
func (n *Node) NotNode() error {
	return fmt.Errorf("%s answered, but not as a node does: check that it is the internal address of a node", n.URL)
}

// errorOf returns the error for an answer that is not status 200.
func (n *Node) errorOf(path string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what was read is better than nothing
	reason, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	switch {
	case strings.Contains(reason, "HTTP request to an HTTPS server"):
		return fmt.Errorf("%s uses TLS: write the address as https://HOST:PORT", n.URL)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s does not know %s: check that it is the internal address of a node", n.URL, path)
	}
	return fmt.Errorf("%s refused (%s): %s", n.URL, resp.Status, reason)
}
