package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/push/gateway/tcp"
	"github.com/sluice-push/sluice/transport"
)

// tcpPort is the port for clients over TCP, TLS and Unix sockets.
type tcpPort struct {
	listener net.Listener // nil if the node has no such port
	tls      *tls.Config  // nil if clients do not use TLS
	clients  *tcp.Transport
}

// listen reads the certificate and listens. Clients that connect before serve wait.
func (p *tcpPort) listen(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	if cfg.TCP.Listen == "" {
		return nil
	}
	var err error
	if p.tls, err = loadTLS("tcp.tls", cfg.TCP.TLS, log); err != nil {
		return err
	}
	o := tcp.ListenOptions{SendBuffer: int(cfg.Limits.SendBuffer), Logger: log}
	if cfg.TCP.ProxyProtocol {
		o.Proxy = proxyOf(cfg)
	}
	l, err := tcp.Listen(ctx, cfg.TCP.Listen, &o)
	if err != nil {
		return fmt.Errorf("cannot listen on %s (setting %q): %w", cfg.TCP.Listen, "tcp.listen", errors.Unwrap(err))
	}
	p.listener = l
	return nil
}

// loadTLS returns what a setting says of TLS, nil without a certificate. The files are read again when they change.
func loadTLS(key string, files config.TLS, log *slog.Logger) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	certificates, err := transport.LoadCertificates(
		[]transport.CertificateFiles{{Certificate: files.Cert, Key: files.Key}},
		&transport.CertificatesOptions{Logger: log, ClientCA: files.ClientCA, RequireClient: files.RequireClient})
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificates (setting %q): %w", key, err)
	}
	return certificates.Config(), nil
}

// overTLS returns a listener whose connections use TLS, unless c is nil.
func overTLS(l net.Listener, c *tls.Config) net.Listener {
	if c == nil {
		return l
	}
	return tls.NewListener(l, c)
}

// transports returns the port's transport for gateway.New, if there is a port.
func (p *tcpPort) transports() []func(*gateway.Gateway) gateway.Transport {
	if p.listener == nil {
		return nil
	}
	return []func(*gateway.Gateway) gateway.Transport{func(g *gateway.Gateway) gateway.Transport {
		p.clients = tcp.New(g, &tcp.Options{TLS: p.tls})
		return p.clients
	}}
}

// serveTCP starts a goroutine that serves the port, if there is one, until the gateway shuts down.
func (n *node) serveTCP() {
	if n.tcp.listener == nil {
		return
	}
	n.serving.Go(func() {
		if err := n.tcp.clients.Serve(n.tcp.listener); !errors.Is(err, net.ErrClosed) {
			n.failed <- fmt.Errorf("serve %s: %w", n.tcp.listener.Addr(), err)
		}
	})
}
