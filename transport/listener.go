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

	"github.com/sluice-push/sluice/internal/reserve"
	"github.com/sluice-push/sluice/internal/seldom"
	sock "github.com/sluice-push/sluice/internal/socket"
)

// Listener accepts connections. Make one with [Listen] or [Wrap]. All methods may be called by any goroutine at any time.
//
// It survives what passes: a connection that was lost before it was accepted is passed over; when the process or the system has no
// descriptor left, who connects is closed at once, for which the listener keeps one descriptor in reserve; when
// even that is gone it tries again after a pause of 5 ms, then longer, up to 1 s.
type Listener struct {
	// Set at Wrap.
	ln      net.Listener
	o       Options
	socket  socket         // under ln; nil when ln is neither a TCP nor a Unix stream listener
	unix    bool           // socket is a Unix stream listener
	local   netip.AddrPort // of all accepted connections; zero when each has its own
	each    []sock.Option  // for every accepted socket
	mixed   bool           // connections may be of Multipath TCP
	ours    bool           // ln is of Listen, so that connections have the options
	file    *socketFile    // of a Unix socket, or nil
	closed  chan struct{}
	reserve reserve.Reserve

	bare, conns sock.Heirs // accepted by us, and by package net
	here        sock.Addresses

	mu sync.Mutex
	// Guarded by mu.
	spare    int             // a duplicate of socket that is in no poller, or −1
	polled   *os.File        // it, when somebody has waited: the socket's own RawConn cannot, this one's can
	rc       syscall.RawConn // of polled
	acceptor *Acceptor       // or nil; has taken either

	bareOnly atomic.Bool                // ln is closed, but the socket is not
	free     atomic.Pointer[acceptCall] // a call that nobody is in
	once     sync.Once                  // closes

	accepted, refused, badHeaders    atomic.Uint64
	aborted, exhausted, shed, pauses atomic.Uint64

	warned seldom.Warning
}

// socket is what *net.TCPListener and *net.UnixListener have in common.
type socket interface {
	net.Listener
	syscall.Conn
	File() (*os.File, error)
}

// Wrap makes a Listener of one that exists. It owns it from then on, unless it returns an error. With a *net.TCPListener or a
// *net.UnixListener for streams all methods work, and all options but those of which the comment says that they are for [Listen].
// With any other AcceptDescriptor does not work, and connections get the options when they are of package net.
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
			l.local = canonical(addr.AddrPort())
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

// prepare sets the options that connections inherit and takes the descriptors that accepting needs.
func (l *Listener) prepare() error {
	if !l.ours || l.unix {
		l.each = l.o.each(l.unix)
	}
	rc, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	err = control(rc, func(fd int) error {
		l.mixed = !l.unix && !sock.IsPlainTCP(fd)
		return l.o.setListener(fd, l.unix)
	})
	if err != nil {
		return err
	}
	if !reserve.Possible {
		return nil
	}
	if haveDescriptors {
		l.spare, err = sock.DuplicateUnder(rc)
	} else {
		l.polled, err = l.socket.File()
	}
	if err != nil {
		return err
	}
	l.reserve.Fill()
	return nil
}

// control runs f with the descriptor.
func control(rc syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// canonical returns the one form of an address: IPv4 mapped into IPv6 is IPv4.
func canonical(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Accept waits for the next connection. It never waits for the peer: a TLS handshake, and a PROXY header, are still to come. What
// it returns then, a *tls.Conn or a *ProxyConn, has a method HandshakeContext; reading and writing do it as well. After Close the
// error is net.ErrClosed; any other means that nothing more will be accepted.
func (l *Listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		conn, err := l.acceptConn()
		if err == nil {
			if conn = l.dress(conn); conn == nil {
				continue
			}
			l.accepted.Add(1)
			return conn, nil
		}
		if pause, err = l.survive(err, pause); err != nil {
			return nil, err
		}
	}
}

// acceptConn is Accept without what the options ask for.
func (l *Listener) acceptConn() (net.Conn, error) {
	if !l.bareOnly.Load() {
		conn, err := l.ln.Accept()
		if err == nil || !l.bareOnly.Load() {
			return conn, err
		}
	}
	return l.acceptAttached()
}

// wrapped reports whether the socket is one of package net that was made elsewhere.
func (l *Listener) wrapped() bool { return l.socket != nil && !l.ours }

// dress makes of an accepted connection what the options ask for. It returns nil for one that they refuse.
func (l *Listener) dress(conn net.Conn) net.Conn {
	if !l.wrapped() || !l.conns.EquipConn(conn, l.each, l.mixed) {
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

// AcceptDescriptor waits for the next connection and returns it bare, with the options applied. The caller owns the descriptor.
// Errors are those of Accept, and errors.ErrUnsupported without [Listener.Plain].
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
		if pause, err = l.survive(err, pause); err != nil {
			return Descriptor{}, err
		}
	}
}

// failed dresses an error of accepting as package net does.
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

// Late returns l as a listener whose connections are not in the poller of the runtime before somebody has to wait for them, where l is
// [Listener.Plain] and of TCP; elsewhere it returns l. It is for servers of net/http whose connections are taken over ([Detach]),
// as WebSocket does: each costs four system calls less. They are no *net.TCPConn: nothing closes them if the user forgets it, and files
// go to others by reading and writing, not by sendfile.
func (l *Listener) Late() net.Listener {
	if !l.Plain() || l.unix {
		return l
	}
	if l.ours { // a socket that is in the poller twice is reported twice
		l.mu.Lock()
		defer l.mu.Unlock()
		l.bareLocked()
	}
	return late{l}
}

// bareLocked closes ln, but not its socket: Accept goes by descriptors from now on.
func (l *Listener) bareLocked() {
	if !l.isClosed() && l.bareOnly.CompareAndSwap(false, true) {
		_ = l.ln.Close()
	}
}

// Closed returns a channel that is closed by Close.
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

// Close stops listening. Who is in Accept or AcceptDescriptor returns. Connections that were accepted stay.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.closed)
		l.file.remove()
		if !l.bareOnly.Load() {
			err = l.ln.Close()
		}
		if l.acceptor != nil {
			l.acceptor.closeLocked()
		}
		l.unpollLocked() // the socket is closed with its last descriptor
		l.reserve.Close()
	})
	return err
}

// Stats are the counts of a listener since it was made.
type Stats struct {
	// Accepted is the number of connections returned.
	Accepted uint64
	// Refused is the number of connections closed at once because they did not come from a proxy, see [Proxy].
	Refused uint64
	// BadHeaders is the number of connections closed because no good PROXY header came.
	BadHeaders uint64
	// Aborted is the number of connections that were lost before they were accepted, as far as the system tells.
	Aborted uint64
	// Exhausted is how often accepting failed because there was no descriptor or no memory.
	Exhausted uint64
	// Shed is the number of connections closed at once because there was no descriptor.
	Shed uint64
	// Pauses is how often even that failed, so that accepting had to pause.
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
