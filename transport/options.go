package transport

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"time"
)

// Options are what a listener and the connections it accepts, or a dialed connection, are to be like. The zero value and nil are
// good. Sizes are in bytes. An option that the kind of socket or the system does not have is passed over, unless its comment says
// otherwise.
type Options struct {
	// TLS makes connections speak TLS. It is used as it is, so it must not be changed afterwards; [Certificates] changes what is
	// shown.
	TLS *tls.Config

	// Proxy makes a listener expect headers of the PROXY protocol, before TLS. Nil expects none.
	Proxy *Proxy

	// ReusePort lets several listeners, of several processes, share a TCP port (SO_REUSEPORT); Linux spreads connections over
	// them. It is for Listen; on systems without it, that returns errors.ErrUnsupported.
	ReusePort bool
	// Backlog is how many connections may wait to be accepted. Zero or negative is what the system allows, which is also the
	// most.
	Backlog int
	// Mode is the permissions of a Unix socket's file: who may connect. Zero leaves them to the process's umask. It is for Listen.
	Mode fs.FileMode

	// Delay switches Nagle's algorithm on: small writes wait for the acknowledgement of those before. It is off otherwise.
	Delay bool
	// KeepAlive is the silence after which TCP asks whether the peer is there, and the time between the questions. Zero is 15 s,
	// negative never asks. The kernel counts whole seconds.
	KeepAlive time.Duration
	// KeepAliveCount is how many questions may stay unanswered. Zero is 9, negative leaves it to the system.
	KeepAliveCount int
	// ReadBuffer and SendBuffer are what the kernel may hold for each direction of a connection (SO_RCVBUF, SO_SNDBUF). Linux
	// doubles them, for its own needs. Zero or negative: the kernel adjusts them itself, up to megabytes.
	ReadBuffer, SendBuffer int
	// NotSentLowat is the number of bytes not sent yet above which a socket does not take more (TCP_NOTSENT_LOWAT). Zero or
	// negative is no bound. Linux only.
	NotSentLowat int

	// Logger gets what heals by itself. Nil discards it.
	Logger *slog.Logger
}

// The defaults of package net.
const (
	defaultKeepAlive      = 15 * time.Second
	defaultKeepAliveCount = 9
)

// withDefaults returns a copy without zeros that mean something else.
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
