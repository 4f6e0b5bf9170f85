package clusternode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/sluice-push/sluice/push/cluster"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/transport"
)

// Listen listens for gateways, if there is an address for them; otherwise the listener is nil. The socket file of a node that was killed is replaced.
func Listen(ctx context.Context, l *config.Link) (net.Listener, error) {
	if l.Listen == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	network, address := "tcp", l.Listen
	if path, isUnix := strings.CutPrefix(address, config.UnixPrefix); isUnix {
		network, address = "unix", path
	}
	ln, err := transport.Listen(ctx, network, address, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (setting %q): %w", address, "cluster.link.listen", errors.Unwrap(err))
	}
	return ln, nil
}

// describe returns what the node announces of itself. What the configuration leaves open follows from where the node listens.
func describe(cfg *config.Config, o *Options) (cluster.Member, error) {
	c := &cfg.Cluster
	m := cluster.Member{
		ID: c.Node, Cluster: c.Name, Role: cfg.Role, Public: c.Advertise.Public, Link: c.Advertise.Link, Labels: c.Labels, Weight: c.Weight,
		Capacity: o.Capacity, Version: o.Version,
	}
	if o.Public == nil {
		m.Public = ""
	} else if m.Public == "" {
		address, err := reachable(o.Public.Addr(), "cluster.advertise.public")
		if err != nil {
			return m, err
		}
		if m.Public = "http://" + address; o.PublicTLS {
			m.Public = "https://" + address
		}
	}
	if o.Link == nil {
		m.Link = ""
	} else if m.Link == "" {
		address, err := reachable(o.Link.Addr(), "cluster.advertise.link")
		if err != nil {
			return m, err
		}
		m.Link = address
	}
	if m.ID == "" {
		id, err := defaultID(o)
		if err != nil {
			return m, err
		}
		m.ID = id
	}
	if err := m.Check(); err != nil {
		return m, fmt.Errorf("the node cannot be announced to the cluster: %w", err)
	}
	return m, nil
}

// reachable returns the address at which others reach a listener. setting is the one to use if that cannot be found out.
func reachable(a net.Addr, setting string) (string, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return config.UnixPrefix + a.String(), nil
	}
	if !tcp.IP.IsUnspecified() {
		return tcp.String(), nil
	}
	host, err := hostname(setting)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port)), nil
}

func hostname(setting string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the name of the host is not known, set %s: %w", setting, err)
	}
	return host, nil
}

// defaultID returns the name of the host and a port on which the node listens.
func defaultID(o *Options) (string, error) {
	host, err := hostname("cluster.node")
	if err != nil {
		return "", err
	}
	for _, l := range []net.Listener{o.Public, o.Link} {
		if l == nil {
			continue
		}
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			return fmt.Sprintf("%s-%d", host, tcp.Port), nil
		}
	}
	return host, nil
}

// gatewayTLS returns how a gateway speaks TLS with hubs; nil: it does not.
func gatewayTLS(l *config.Link) (*tls.Config, error) {
	if l.CA == "" && l.TLS.Cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if l.CA != "" {
		text, err := os.ReadFile(l.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificates that sign those of hubs (setting %q): %w", "cluster.link.ca", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM form (setting %q)", l.CA, "cluster.link.ca")
		}
	}
	if l.TLS.Cert == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		certificate, err := tls.LoadX509KeyPair(l.TLS.Cert, l.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("cannot load the certificate for hubs (setting %q): %w", "cluster.link.tls", err)
		}
		return &certificate, nil
	}
	if _, err := load(); err != nil { // better now than with the first link
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}
