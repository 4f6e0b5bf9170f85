package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluice-push/sluice/cmd/sluice/internal/descriptors"
	"github.com/sluice-push/sluice/cmd/sluice/internal/portsplit"
	"github.com/sluice-push/sluice/push/config"
	"github.com/sluice-push/sluice/push/forwarded"
	"github.com/sluice-push/sluice/push/gateway"
	"github.com/sluice-push/sluice/transport"
	"github.com/sluice-push/sluice/websocket"
)

// The bounds of a connection of HTTP/2.
const (
	http2Streams = 100
	http2Window  = 64 << 10 // of what is received and not read, for each stream
)

// The bounds of a request, so that a client that is slow on purpose does not hold a connection. Clients that are connected have bounds of their own.
const (
	bodyTimeout     = 10 * time.Second
	responseTimeout = 30 * time.Second // from the end of the header until the response is written; limits.write_timeout is added
)

// listenPublic opens the addresses of clients and loads their certificate.
func (n *node) listenPublic(cfg *config.Config, log *slog.Logger) (err error) {
	if n.tls, err = loadTLS("tls", cfg.TLS, log); err != nil {
		return err
	}
	if n.tls != nil {
		n.tls.NextProtos, n.tls.MinVersion = []string{"h2", "http/1.1"}, tls.VersionTLS12
	}
	if cfg.Listen != "" {
		if n.public, err = listen("listen", cfg.Listen); err != nil {
			return err
		}
	}
	if n.public != nil && cfg.ProxyProtocol {
		if n.public, err = expectProxyHeaders(n.public, "listen", cfg, log); err != nil {
			return err
		}
	}
	if cfg.GRPC.Listen == "" {
		return nil
	}
	if n.grpcOnly, err = listen("grpc.listen", cfg.GRPC.Listen); err != nil || !cfg.GRPC.ProxyProtocol {
		return err
	}
	n.grpcOnly, err = expectProxyHeaders(n.grpcOnly, "grpc.listen", cfg, log)
	return err
}

// expectProxyHeaders returns a listener over l that expects headers of the PROXY protocol from the trusted proxies. After an error it returns l itself. key is
// the setting with the address of l.
func expectProxyHeaders(l net.Listener, key string, cfg *config.Config, log *slog.Logger) (net.Listener, error) {
	wrapped, err := transport.Wrap(l, &transport.Options{SendBuffer: int(cfg.Limits.SendBuffer), Proxy: proxyOf(cfg), Logger: log})
	if err != nil {
		return l, fmt.Errorf("cannot listen on %s (setting %q): %w", l.Addr(), key, err)
	}
	return wrapped, nil
}

// proxyOf returns from whom headers of the PROXY protocol are expected. A client that is no proxy is served without one.
func proxyOf(cfg *config.Config) *transport.Proxy {
	proxies, _ := forwarded.Parse(cfg.TrustedProxies) // the configuration is valid
	return &transport.Proxy{Trusted: proxies}
}

// servePublic serves HTTP on the public address. Until the broker is ready, the node answers 503 with Retry-After, and connections of gRPC wait.
func (n *node) servePublic(cfg *config.Config, log *slog.Logger) {
	retryLater := gateway.Waiting(cfg.Origins, notReady)
	s := newServer(gateway.BoundBodies(bodyTimeout, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := n.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		retryLater.ServeHTTP(w, r)
	})), log)
	s.WriteTimeout = responseTimeout + time.Duration(cfg.Limits.WriteTimeout)
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(cfg.GRPC.Shared)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          http2Streams,
		MaxReceiveBufferPerStream:     http2Window,
		MaxReceiveBufferPerConnection: http2Streams * http2Window,
		SendPingTimeout:               time.Minute,
		WriteByteTimeout:              time.Duration(cfg.Limits.WriteTimeout),
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		// Server-sent events stay with net/http. The send buffer bounds what the kernel holds for such a connection.
		if tcp, ok := descriptors.Below(c).(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(int(cfg.Limits.SendBuffer)) // an error is ignored: the connection works with the default buffer
		}
		return ctx
	}
	n.publicServer = s
	var source net.Listener = descriptors.NewScarce(n.public, s, log)
	if n.tls == nil {
		source = websocket.NewUpgradeListener(source, n.upgradeHandler, log)
	}
	http, grpc := portsplit.New(source, portsplit.Options{TLS: n.tls, Shared: cfg.GRPC.Shared, BadHeader: n.countBadHeader})
	n.grpcListeners = append(n.grpcListeners, grpc)
	n.serve(http, s)
}

// countBadHeader counts a connection to the public address without a valid PROXY header. Until the broker is ready there is no gateway, and nothing is
// counted.
func (n *node) countBadHeader() {
	if n.handler.Load() != nil { // set after n.gateway
		n.gateway.RequestRefused()
	}
}

// serveGRPC serves gRPC on its listeners until stop.
func (n *node) serveGRPC(log *slog.Logger) {
	if n.grpcOnly != nil {
		n.grpcListeners = append(n.grpcListeners, overTLS(descriptors.NewScarce(n.grpcOnly, nil, log), n.tls))
	}
	for _, l := range n.grpcListeners {
		n.serving.Go(func() {
			if err := n.grpc.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
				n.failed <- fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
			}
		})
	}
}
