package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/logsample"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// Listener accepts connections. Make one with [Listen] or [Wrap]. All methods may be called by any goroutine at any time.
//
// A Listener survives errors that pass. If a connection is lost before it is accepted, the listener goes on to the next one. If the process or
// the system has no descriptor left, it closes each new connection at once; for that it keeps one spare descriptor. If even that fails, it
// tries again after a pause of 5 ms, then longer, up to 1 s.
type Listener struct {
	// Set at Wrap.
	ln      net.Listener
	o       Options
	socket  socket           // under ln; nil if ln is neither a TCP nor a Unix stream listener
	unix    bool             // socket is a Unix stream listener
	local   netip.AddrPort   // of all accepted connections; zero if each has its own
	each    []sockopt.Option // set on every accepted socket
	mixed   bool             // connections may use Multipath TCP
	ours    bool             // Listen has made ln, so that connections inherit the options
	file    *socketFile      // of a Unix socket, or nil
	closed  chan struct{}
	spareFD sockopt.SpareFD

	bare, conns sockopt.InheritedOptions // sockets accepted by this package, and by package net

	mu sync.Mutex
	// Guarded by mu.
	spare    int             // a duplicate of socket that is in no poller, or −1
	polled   *os.File        // the duplicate in the runtime's poller, or nil; unlike the RawConn of socket, that of a file can wait
	rc       syscall.RawConn // of polled
	acceptor *Acceptor       // has taken spare or polled; nil if there is none

	detached atomic.Bool                // ln is closed, but the socket is not
	free     atomic.Pointer[acceptCall] // an unused call, or nil
	once     sync.Once                  // for Close

	accepted, refused, badHeaders    atomic.Uint64
	aborted, exhausted, shed, pauses atomic.Uint64

	warned logsample.Warning
}

// socket is the methods that *net.TCPListener and *net.UnixListener have in common.
type socket interface {
	net.Listener
	syscall.Conn
	File() (*os.File, error)
}

// Wrap returns a Listener over ln, which it owns from then on, unless it returns an error. If ln is a *net.TCPListener or a *net.UnixListener
// for streams, all methods work, and all options except the ones for [Listen] only. With any other ln AcceptDescriptor does not work, and
// connections get the options only if they are of package net.
func Wrap(ln net.Listener, o *Options) (*Listener, error) {
	c := o.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return newListener(ln, c, false)
}

func newListener(ln net.Listener, o Options, ours bool) (*Listener, error) {
	l := &Listener{ln: ln, o: o, ours: ours, spare: -1, closed: make(chan struct{})}
	switch ln := ln.(type) {
	case *net.TCPListener:
		l.socket = ln
		if addr, ok := ln.Addr().(*net.TCPAddr); ok && !addr.IP.IsUnspecified() {
			l.local = clientaddr.Canonical(addr.AddrPort())
		}
	case *net.UnixListener:
		if ln.Addr().Network() == "unix" {
			l.socket, l.unix = ln, true
		}
	}
	if l.socket != nil {
		if err := l.prepare(); err != nil {
			return nil, &net.OpError{Op: "listen", Net: ln.Addr().Network(), Addr: ln.Addr(), Err: err}
		}
	}
	return l, nil
}

// prepare sets the options that connections inherit, and opens the descriptors that accepting needs.
func (l *Listener) prepare() error {
	if !l.ours || l.unix {
		l.each = l.o.each(l.unix)
	}
	rc, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	err = sockopt.WithDescriptor(rc, func(fd int) error {
		l.mixed = !l.unix && !sockopt.IsPlainTCP(fd)
		return l.o.setListener(fd, l.unix)
	})
	if err != nil {
		return err
	}
	if !sockopt.HasSpareFD {
		return nil
	}
	if haveDescriptors {
		l.spare, err = sockopt.DuplicateConn(rc)
	} else {
		l.polled, err = l.socket.File()
	}
	if err != nil {
		return err
	}
	l.spareFD.Fill()
	return nil
}

// Accept waits for the next connection, but never for the peer: a TLS handshake and a PROXY header are still to come. The connection is then a
// *tls.Conn or a *ProxyConn. The method HandshakeContext of both does the rest, and so do Read and Write. After Close the error is
// net.ErrClosed. Any other error means that nothing more will be accepted.
func (l *Listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		conn, err := l.acceptConn()
		if err == nil {
			if conn = l.applyOptions(conn); conn == nil {
				continue
			}
			l.accepted.Add(1)
			return conn, nil
		}
		if pause, err = l.retryAccept(err, pause); err != nil {
			return nil, err
		}
	}
}

// acceptConn accepts a connection, and does not apply the options.
func (l *Listener) acceptConn() (net.Conn, error) {
	if !l.detached.Load() {
		conn, err := l.ln.Accept()
		if err == nil || !l.detached.Load() {
			return conn, err
		}
	}
	return l.acceptAttached()
}

// wrapped reports whether the socket is one of package net that Wrap was given.
func (l *Listener) wrapped() bool { return l.socket != nil && !l.ours }

// applyOptions applies the options to an accepted connection: it sets socket options and adds PROXY and TLS. It returns nil if it refuses the
// connection.
func (l *Listener) applyOptions(conn net.Conn) net.Conn {
	if !l.wrapped() || !l.conns.ApplyConn(conn, l.each, l.mixed) {
		l.o.setConn(conn, socketOptions && l.ours && !l.unix)
	}
	if p := l.o.Proxy; p != nil {
		switch {
		case p.trusts(conn.RemoteAddr()):
			conn = newProxyConn(conn, p, &l.badHeaders)
		case p.Required:
			l.refused.Add(1)
			_ = conn.Close()
			return nil
		}
	}
	if l.o.TLS != nil {
		conn = tls.Server(conn, l.o.TLS)
	}
	return conn
}

// Plain reports whether AcceptDescriptor works: on Linux, for TCP and Unix stream listeners without TLS and PROXY headers.
func (l *Listener) Plain() bool {
	return haveDescriptors && l.socket != nil && l.o.TLS == nil && l.o.Proxy == nil
}

// AcceptDescriptor waits for the next connection and returns its descriptor, with the options set. The caller owns the descriptor. Errors are
// those of Accept, and errors.ErrUnsupported if [Listener.Plain] is false.
func (l *Listener) AcceptDescriptor() (Descriptor, error) {
	if !l.Plain() {
		return Descriptor{}, l.failed(errors.ErrUnsupported)
	}
	var pause time.Duration
	for {
		d, err := l.acceptDescriptor()
		if err == nil {
			l.accepted.Add(1)
			return d, nil
		}
		if pause, err = l.retryAccept(err, pause); err != nil {
			return Descriptor{}, err
		}
	}
}

// failed wraps an error of accepting as package net does.
func (l *Listener) failed(err error) error {
	if l.isClosed() {
		err = net.ErrClosed
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return &net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
}

// detachLocked closes ln, but not its socket. From now on Accept goes by descriptors.
func (l *Listener) detachLocked() {
	if !l.isClosed() && l.detached.CompareAndSwap(false, true) {
		_ = l.ln.Close()
	}
}

// Closed returns a channel that Close closes.
func (l *Listener) Closed() <-chan struct{} { return l.closed }

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Addr returns the address that the listener listens on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close stops listening. Waiting calls of Accept and AcceptDescriptor return. Accepted connections stay open.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.closed)
		l.file.remove()
		if !l.detached.Load() {
			err = l.ln.Close()
		}
		if l.acceptor != nil {
			l.acceptor.closeLocked()
		}
		l.unpollLocked() // closing its last descriptor closes the socket
		l.spareFD.Close()
	})
	return err
}

// Stats are the counts of a listener since it was made.
type Stats struct {
	// Accepted is the number of connections returned.
	Accepted uint64
	// Refused is the number of connections closed at once because their peer is not a trusted proxy: see [Proxy].
	Refused uint64
	// BadHeaders is the number of connections closed because of a missing or invalid PROXY header.
	BadHeaders uint64
	// Aborted is the number of connections that were lost before they were accepted, as far as the system reports them.
	Aborted uint64
	// Exhausted is the number of times that accepting failed for lack of a descriptor or of memory.
	Exhausted uint64
	// Shed is the number of connections closed at once for lack of a descriptor, as load shedding.
	Shed uint64
	// Pauses is the number of pauses in accepting, after failures that closing a connection could not handle.
	Pauses uint64
}

// Stats returns the counts so far.
func (l *Listener) Stats() Stats {
	return Stats{
		Accepted:   l.accepted.Load(),
		Refused:    l.refused.Load(),
		BadHeaders: l.badHeaders.Load(),
		Aborted:    l.aborted.Load(),
		Exhausted:  l.exhausted.Load(),
		Shed:       l.shed.Load(),
		Pauses:     l.pauses.Load(),
	}
}
