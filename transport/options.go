package transport

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"time"
)

// Options are the options of a listener and the connections that it accepts, or of a dialed connection. The zero value and nil are usable. Sizes
// are in bytes. An option that the kind of socket or the system does not have is ignored, unless its comment says otherwise.
type Options struct {
	// TLS makes connections use TLS. The configuration is used without a copy, so it must not change afterwards; [Certificates] changes the
	// certificates that it uses.
	TLS *tls.Config

	// Proxy makes a listener expect headers of the PROXY protocol, before TLS. If it is nil, the listener expects none.
	Proxy *Proxy

	// ReusePort lets several listeners, also of several processes, share a TCP port (SO_REUSEPORT). Linux spreads connections over them. It is
	// for Listen, which returns errors.ErrUnsupported on systems without it.
	ReusePort bool
	// Backlog is the number of connections that may wait to be accepted. Zero or negative means the most that the system allows.
	Backlog int
	// Mode is the permissions of a Unix socket's file, which decide about the right to connect. Zero leaves them to the umask of the process. It
	// is for Listen.
	Mode fs.FileMode

	// Delay enables Nagle's algorithm: small writes wait for the acknowledgement of earlier ones. By default it is disabled.
	Delay bool
	// KeepAlive is the silence after which TCP sends keep-alive probes, and the time between two probes. Zero means 15 s, and negative means no
	// probes. The kernel counts whole seconds.
	KeepAlive time.Duration
	// KeepAliveCount is the number of unanswered probes that end a connection. Zero means 9, and negative means the default of the system.
	KeepAliveCount int
	// ReadBuffer and SendBuffer are the sizes of the kernel's buffers for each direction of a connection (SO_RCVBUF, SO_SNDBUF). Linux doubles
	// them, for its own needs. Zero or negative lets the kernel adjust them itself, up to megabytes.
	ReadBuffer, SendBuffer int
	// NotSentLowat is the number of unsent bytes above which a socket takes no more (TCP_NOTSENT_LOWAT). Zero or negative means no bound. Linux
	// only.
	NotSentLowat int

	// Logger gets the errors that the listener recovers from. Nil discards them.
	Logger *slog.Logger
}

// The defaults of package net.
const (
	defaultKeepAlive      = 15 * time.Second
	defaultKeepAliveCount = 9
)

// withDefaults returns a copy in which zeros that mean a default are replaced by it.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = defaultKeepAlive
	}
	if c.KeepAliveCount == 0 {
		c.KeepAliveCount = defaultKeepAliveCount
	}
	c.Proxy = c.Proxy.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
