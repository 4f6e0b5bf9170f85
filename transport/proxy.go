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

// Proxy says from whom a listener expects headers of the PROXY protocol, with which a load balancer tells whose connections it
// forwards. A header is never guessed: with Trusted peers a connection must begin with one, and with others what looks like one is
// data.
type Proxy struct {
	// Trusted are the addresses of the proxies; a prefix of IPv6 holds no IPv4 address. Peers that have no IP address, on Unix
	// sockets and in memory, are trusted always.
	Trusted []netip.Prefix
	// Required closes the connections of all others. Without it they are served as they are.
	Required bool
	// Timeout is how long a proxy may take for the header, from the first call that needs it. Zero is 5 s, negative is for
	// ever. The protocol asks for at least 3 s, the time in which a lost packet is sent again.
	Timeout time.Duration
}

// defaultProxyTimeout is how long a header may take.
const defaultProxyTimeout = 5 * time.Second

// withDefaults returns a copy in which prefixes are in canonical form.
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

// check refuses prefixes that match nobody.
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

// trusts reports whether a peer's header is to be believed.
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

// ProxyConn is a connection from a trusted proxy. The header is read by the first of HandshakeContext, Read and Write, not by
// Accept, which a slow proxy cannot hold up; not one byte more is read. The methods are those of net.Conn, which see for who may
// call them.
type ProxyConn struct {
	conn    net.Conn
	timeout time.Duration
	failed  *atomic.Uint64 // counts headers that were not good

	turn chan struct{} // holds an element while somebody reads the header
	done atomic.Bool   // set after what follows
	h    *ProxyHeader
	err  error

	// Owned by who has the turn.
	head  []byte    // what has arrived of the header
	until time.Time // when the header must be here; zero is for ever

	mu       sync.Mutex
	deadline time.Time // the caller's, for reading
	bound    time.Time // the header's, while it is read
	reading  bool
}

func newProxyConn(conn net.Conn, p *Proxy, failed *atomic.Uint64) *ProxyConn {
	return &ProxyConn{conn: conn, timeout: p.Timeout, failed: failed, turn: make(chan struct{}, 1)}
}

// HandshakeContext reads the header, if nobody has, and returns what was wrong with it: an error that is [ErrProxyHeader],
// io.EOF when the proxy left before it said anything, os.ErrDeadlineExceeded when it took too long, or the error of ctx. After any of
// these the connection is closed, and everybody gets the same error. A deadline of the caller's own only interrupts it.
func (c *ProxyConn) HandshakeContext(ctx context.Context) error {
	if c.done.Load() {
		return c.err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
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

// isFinal reports whether reading the header cannot go on after err: everything but a deadline that the caller had set.
func (c *ProxyConn) isFinal(ctx context.Context, err error) bool {
	return !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil || !c.until.IsZero() && !time.Now().Before(c.until)
}

// wrap dresses an error as package net does. Readers compare io.EOF, so that stays as it is.
func (c *ProxyConn) wrap(err error) error {
	var op *net.OpError
	if err == nil || err == io.EOF || errors.As(err, &op) { //nolint:errorlint // wrapped it would be another's
		return err
	}
	local := c.conn.LocalAddr()
	return &net.OpError{Op: "proxy", Net: local.Network(), Source: local, Addr: c.conn.RemoteAddr(), Err: err}
}

// readHeader reads what is missing of the header, and nothing else.
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
		const most = 512 // a length is only a promise
		have := len(c.head)
		c.head = append(c.head, make([]byte, min(n, most))...)
		n, err = c.conn.Read(c.head[have:])
		c.head = c.head[:have+n]
		switch {
		case n > 0: // an error comes again
		case err == io.EOF && have > 0: //nolint:errorlint // package net does not wrap it
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
}

// setBound bounds reading by the earlier of the header's deadline and the caller's.
func (c *ProxyConn) setBound(t time.Time, reading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound, c.reading = t, reading
	_ = c.setLocked()
}

// interrupt ends the reading of the header.
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

// Header returns what the proxy said, nil when it is not read yet or was not good.
func (c *ProxyConn) Header() *ProxyHeader {
	if !c.done.Load() {
		return nil
	}
	return c.h
}

// Plain returns the bare connection after a good header, for an engine that reads it itself; see [Detach]. Before anything else it
// has to take the unread bytes as read, which are none here. LocalAddr and RemoteAddr of the ProxyConn stay right; its other
// methods must not be called any more.
func (c *ProxyConn) Plain() (conn net.Conn, unread []byte, ok bool) {
	if c.Header() == nil {
		return nil, nil, false
	}
	return c.conn, nil, true
}

// NetConn returns the connection with the proxy, to look at it. Reading from it may take the header's bytes.
func (c *ProxyConn) NetConn() net.Conn { return c.conn }

// Read reads what the client sent, after the header. Errors are those of HandshakeContext and of the connection.
func (c *ProxyConn) Read(p []byte) (int, error) {
	if err := c.HandshakeContext(context.Background()); err != nil {
		return 0, err
	}
	return c.conn.Read(p)
}

// Write waits for the header too: the protocol says not to serve a connection before (section 2). Meanwhile the deadline for
// reading bounds it.
func (c *ProxyConn) Write(p []byte) (int, error) {
	if err := c.HandshakeContext(context.Background()); err != nil {
		return 0, err
	}
	return c.conn.Write(p)
}

// Close closes the connection with the proxy.
func (c *ProxyConn) Close() error { return c.conn.Close() }

// CloseWrite tells the peer that nothing more comes, if the connection can.
func (c *ProxyConn) CloseWrite() error {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok {
		return c.wrap(errors.ErrUnsupported)
	}
	return half.CloseWrite()
}

// RemoteAddr returns the client's address after a header that has one, and the proxy's otherwise.
func (c *ProxyConn) RemoteAddr() net.Addr {
	if h := c.Header(); h != nil && !h.Local {
		return addrOf(h.Source, h.SourcePath, h.Unix)
	}
	return c.conn.RemoteAddr()
}

// LocalAddr returns the address that the client connected to after a header that has one, and the connection's own otherwise.
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

// SetReadDeadline bounds Read, and the reading of the header, which goes on when it is set again.
func (c *ProxyConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.setLocked()
}

// SetWriteDeadline bounds Write, after the header.
func (c *ProxyConn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }
