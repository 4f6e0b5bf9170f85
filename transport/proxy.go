package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy configures the peers from which a listener expects headers of the PROXY protocol. With such a header a load balancer states the
// addresses of the connection that it forwards. The listener never guesses: a connection from a Trusted peer must begin with a header, and on
// any other connection the same bytes are data.
type Proxy struct {
	// Trusted are the addresses of the proxies. A prefix of IPv6 contains no IPv4 address. Peers without an IP address, on Unix sockets and in
	// memory, are always trusted.
	Trusted []netip.Prefix
	// Required closes the connections of all other peers. Without it they are served without a header.
	Required bool
	// Timeout bounds the time for the header, from the first call that needs it. Zero means 5 s, and negative means no bound. The protocol asks
	// for at least 3 s, the time after which a lost packet is sent again.
	Timeout time.Duration
}

// defaultProxyTimeout is the default of Proxy.Timeout.
const defaultProxyTimeout = 5 * time.Second

// withDefaults returns a copy with defaults and with prefixes in canonical form.
func (p *Proxy) withDefaults() *Proxy {
	if p == nil {
		return nil
	}
	c := *p
	c.Trusted = make([]netip.Prefix, len(p.Trusted))
	for i, prefix := range p.Trusted {
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		c.Trusted[i] = prefix
	}
	if c.Timeout == 0 {
		c.Timeout = defaultProxyTimeout
	}
	return &c
}

// check refuses invalid prefixes, which match no address.
func (p *Proxy) check() error {
	if p == nil {
		return nil
	}
	for _, prefix := range p.Trusted {
		if !prefix.IsValid() {
			return fmt.Errorf("transport: trusted prefix %v is not valid", prefix)
		}
	}
	return nil
}

// trusts reports whether a connection from peer begins with a header to believe.
func (p *Proxy) trusts(peer net.Addr) bool {
	var addr netip.Addr
	switch peer := peer.(type) {
	case *net.TCPAddr:
		addr = peer.AddrPort().Addr()
	case *net.UnixAddr, memoryAddr:
		return true
	default:
		a, err := netip.ParseAddrPort(peer.String())
		if err != nil {
			return false
		}
		addr = a.Addr()
	}
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p.Trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// ProxyConn is a connection from a trusted proxy. The first call of HandshakeContext, Read or Write reads the header, so a slow proxy does not
// hold up Accept. It reads no byte behind the header. The methods are those of net.Conn, and may be called by the same goroutines.
type ProxyConn struct {
	conn    net.Conn
	timeout time.Duration
	failed  *atomic.Uint64 // counts missing and invalid headers

	lock chan struct{} // a lock: contains an element while a goroutine reads the header
	done atomic.Bool   // set after h and err
	h    *ProxyHeader
	err  error

	// Owned by the goroutine that holds the lock.
	head  []byte    // the bytes of the header that have arrived
	until time.Time // when the header must be complete; zero is no bound

	mu       sync.Mutex
	deadline time.Time // the caller's deadline for reading
	bound    time.Time // the deadline for the header, while it is read
	reading  bool
}

func newProxyConn(conn net.Conn, p *Proxy, failed *atomic.Uint64) *ProxyConn {
	return &ProxyConn{conn: conn, timeout: p.Timeout, failed: failed, lock: make(chan struct{}, 1)}
}

// HandshakeContext reads the header if no call has, and returns nil if it is valid. The error is [ErrProxyHeader] for an invalid header, io.EOF
// if the proxy has closed the connection before the first byte, os.ErrDeadlineExceeded after Proxy.Timeout, or the error of ctx. After such an
// error the connection is closed, and every call returns the same error. Two cases only end the call, and a later call continues: the caller's
// own read deadline passes, or ctx ends while another call reads the header.
func (c *ProxyConn) HandshakeContext(ctx context.Context) error {
	if c.done.Load() {
		return c.err
	}
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return c.wrap(ctx.Err())
	}
	if c.done.Load() {
		return c.err
	}
	h, err := c.readHeader(ctx)
	if err != nil && !c.isFinal(ctx, err) {
		return c.wrap(err)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		c.failed.Add(1)
		_ = c.conn.Close()
	}
	c.h, c.err, c.head = h, c.wrap(err), nil
	c.done.Store(true)
	return c.err
}

// isFinal reports whether the header cannot be read further after err. Every error but that of the caller's own deadline is final.
func (c *ProxyConn) isFinal(ctx context.Context, err error) bool {
	return !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil || !c.until.IsZero() && !time.Now().Before(c.until)
}

// wrap wraps an error as package net does. It returns io.EOF unchanged, because readers compare it.
func (c *ProxyConn) wrap(err error) error {
	var op *net.OpError
	if err == nil || err == io.EOF || errors.As(err, &op) { //nolint:errorlint // a wrapped io.EOF is a different error
		return err
	}
	local := c.conn.LocalAddr()
	return &net.OpError{Op: "proxy", Net: local.Network(), Source: local, Addr: c.conn.RemoteAddr(), Err: err}
}

// readHeader reads the rest of the header, and no byte behind it.
func (c *ProxyConn) readHeader(ctx context.Context) (*ProxyHeader, error) {
	if c.until.IsZero() && c.timeout > 0 {
		c.until = time.Now().Add(c.timeout)
	}
	c.setBound(c.until, true)
	defer c.setBound(time.Time{}, false)
	defer context.AfterFunc(ctx, c.interrupt)()
	for {
		h, n, err := parseProxy(c.head)
		if h != nil || err != nil {
			return h, err
		}
		const most = 512 // bytes read at once: the announced length may never arrive
		have := len(c.head)
		c.head = append(c.head, make([]byte, min(n, most))...)
		n, err = c.conn.Read(c.head[have:])
		c.head = c.head[:have+n]
		switch {
		case n > 0: // the next Read returns the error again
		case err == io.EOF && have > 0: //nolint:errorlint // package net does not wrap it
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
}

// setBound bounds reading by the earlier one of the header's deadline t and the caller's.
func (c *ProxyConn) setBound(t time.Time, reading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound, c.reading = t, reading
	_ = c.setLocked()
}

// interrupt makes a read of the header return.
func (c *ProxyConn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading {
		c.bound = time.Unix(1, 0)
		_ = c.setLocked()
	}
}

func (c *ProxyConn) setLocked() error {
	t := c.deadline
	if t.IsZero() || !c.bound.IsZero() && c.bound.Before(t) {
		t = c.bound
	}
	return c.conn.SetReadDeadline(t)
}

// Header returns the header, or nil if it is not read yet or invalid.
func (c *ProxyConn) Header() *ProxyHeader {
	if !c.done.Load() {
		return nil
	}
	return c.h
}

// Plain returns the underlying connection after a valid header, for an engine that reads it itself: see [Detach]. unread are bytes that the
// engine must handle first; here there are none. LocalAddr and RemoteAddr of the ProxyConn stay valid. Its other methods must not be called any
// more. If there is no valid header, ok is false.
func (c *ProxyConn) Plain() (conn net.Conn, unread []byte, ok bool) {
	if c.Header() == nil {
		return nil, nil, false
	}
	return c.conn, nil, true
}

// NetConn returns the connection with the proxy, for inspection. Reading from it may take bytes of the header.
func (c *ProxyConn) NetConn() net.Conn { return c.conn }

// Read reads the client's bytes, after the header. Errors are those of HandshakeContext and of the connection.
func (c *ProxyConn) Read(p []byte) (int, error) {
	if err := c.HandshakeContext(context.Background()); err != nil {
		return 0, err
	}
	return c.conn.Read(p)
}

// Write waits for the header too, because the protocol forbids serving a connection before it (section 2). Meanwhile the read deadline applies.
func (c *ProxyConn) Write(p []byte) (int, error) {
	if err := c.HandshakeContext(context.Background()); err != nil {
		return 0, err
	}
	return c.conn.Write(p)
}

// Close closes the connection with the proxy.
func (c *ProxyConn) Close() error { return c.conn.Close() }

// CloseWrite tells the peer that nothing more follows, if the connection supports that.
func (c *ProxyConn) CloseWrite() error {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok {
		return c.wrap(errors.ErrUnsupported)
	}
	return half.CloseWrite()
}

// RemoteAddr returns the client's address if the header contains one, and the proxy's otherwise.
func (c *ProxyConn) RemoteAddr() net.Addr {
	if h := c.Header(); h != nil && !h.Local {
		return addrOf(h.Source, h.SourcePath, h.Unix)
	}
	return c.conn.RemoteAddr()
}

// LocalAddr returns the address that the client connected to if the header contains one, and the connection's own otherwise.
func (c *ProxyConn) LocalAddr() net.Addr {
	if h := c.Header(); h != nil && !h.Local {
		return addrOf(h.Destination, h.DestinationPath, h.Unix)
	}
	return c.conn.LocalAddr()
}

func addrOf(a netip.AddrPort, path string, unix bool) net.Addr {
	if unix {
		return &net.UnixAddr{Name: path, Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}

// SetDeadline sets both deadlines.
func (c *ProxyConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.conn.SetWriteDeadline(t)
}

// SetReadDeadline bounds Read, and the reading of the header. If the deadline interrupts the header, reading continues after a new deadline is
// set.
func (c *ProxyConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.setLocked()
}

// SetWriteDeadline bounds Write, after the header.
func (c *ProxyConn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }
