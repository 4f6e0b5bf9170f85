package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Listener accepts connections. Make one with [Wrap]. All methods may be called by any goroutine at any time.
type Listener struct {
	// Set at Wrap.
	ln     net.Listener
	o      Options
	socket socket         // under ln; nil when ln is neither a TCP nor a Unix stream listener
	unix   bool           // socket is a Unix stream listener
	local  netip.AddrPort // of all accepted connections; zero when each has its own
	each   []option       // to set on every accepted descriptor
	closed chan struct{}

	free atomic.Pointer[acceptCall] // a call that nobody is in

	mu      sync.Mutex
	polled  *os.File        // a duplicate of socket in the poller, made by the first AcceptDescriptor
	rc      syscall.RawConn // of polled
	isEnded bool
}

// socket is what *net.TCPListener and *net.UnixListener have in common.
type socket interface {
	net.Listener
	syscall.Conn
	File() (*os.File, error)
}

// Wrap makes a Listener of one that exists, and owns it from then on. With a *net.TCPListener or a *net.UnixListener for streams the
// options are applied to its socket, and all methods work; with any other only Accept, Close and Addr do.
func Wrap(ln net.Listener, o *Options) (*Listener, error) {
	l := &Listener{ln: ln, o: o.withDefaults(), closed: make(chan struct{})}
	switch ln := ln.(type) {
	case *net.TCPListener:
		l.socket = ln
		if addr, ok := ln.Addr().(*net.TCPAddr); ok && !addr.IP.IsUnspecified() {
			l.local = canonical(addr.AddrPort())
		}
	case *net.UnixListener:
		if ln.Addr().Network() == "unix" {
			l.socket, l.unix = ln, true
		}
	}
	if l.socket == nil {
		return l, nil
	}
	l.each = l.o.each(l.unix)
	if l.unix {
		return l, nil
	}
	if err := l.o.setListener(l.socket); err != nil {
		return nil, &net.OpError{Op: "listen", Net: ln.Addr().Network(), Addr: ln.Addr(), Err: err}
	}
	return l, nil
}

// canonical returns the one form of an address: IPv4 mapped into IPv6 is IPv4.
func canonical(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Accept waits for the next connection. After Close it returns an error that is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.ln.Accept()
	if err != nil {
		return nil, err
	}
	if l.socket != nil {
		l.o.setAccepted(conn)
	}
	return conn, nil
}

// Plain reports whether AcceptDescriptor works: on Linux, for TCP and Unix stream listeners.
func (l *Listener) Plain() bool { return haveDescriptors && l.socket != nil }

// AcceptDescriptor waits for the next connection and returns it bare, with the options applied. The caller owns the descriptor.
// Without [Listener.Plain] the error is errors.ErrUnsupported, after Close it is net.ErrClosed.
func (l *Listener) AcceptDescriptor() (Descriptor, error) {
	if !l.Plain() {
		return Descriptor{}, l.failed(errors.ErrUnsupported)
	}
	d, err := l.acceptDescriptor()
	if err != nil {
		return Descriptor{}, l.failed(err)
	}
	return d, nil
}

// failed dresses an error of accepting as package net does.
func (l *Listener) failed(err error) error {
	select {
	case <-l.closed:
		err = net.ErrClosed
	default:
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
}

// Addr returns the address that the listener listens on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close stops listening. Who is in Accept or AcceptDescriptor returns. Connections that were accepted stay.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.isEnded {
		l.mu.Unlock()
		return nil
	}
	l.isEnded = true
	close(l.closed)
	polled := l.polled
	l.polled = nil
	l.mu.Unlock()

	err := l.ln.Close()
	if polled != nil {
		_ = polled.Close() // the socket is closed with its last descriptor
	}
	return err
}
