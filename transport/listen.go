package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Listen listens on a TCP address ("tcp", "tcp4", "tcp6", as net.Listen has them) or on the path of a Unix stream socket ("unix").
// The context is for resolving the address. A socket file on which nobody listens any more is replaced; the file is removed at Close, unless
// another listener has put its own there. TCP sockets are plain, not Multipath TCP, of which connections do not inherit all options. Errors are *net.OpError.
func Listen(ctx context.Context, network, address string, o *Options) (*Listener, error) {
	c := o.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	unix, err := checkNetwork(network)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	lc := net.ListenConfig{
		KeepAlive: -1, // set by us
		Control: func(_, _ string, rc syscall.RawConn) error {
			return control(rc, func(fd int) error { return c.setUnbound(fd, unix) })
		},
	}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(ctx, network, address)
	if unix && errors.Is(err, syscall.EADDRINUSE) && removeStale(ctx, address) {
		ln, err = lc.Listen(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	file := newSocketFile(ln, address)
	if unix && c.Mode != 0 && !isAbstract(address) {
		if err := os.Chmod(address, c.Mode.Perm()); err != nil {
			file.remove()
			_ = ln.Close()
			return nil, &net.OpError{Op: "listen", Net: network, Addr: ln.Addr(), Err: err}
		}
	}
	l, err := newListener(ln, c, true)
	if err != nil {
		file.remove()
		_ = ln.Close()
		return nil, err
	}
	l.file = file
	return l, nil
}

// socketFile is the file of a Unix listener, which may be another's by the time that is closed: of a successor that has put its own there.
type socketFile struct {
	path string
	is   fs.FileInfo
}

// newSocketFile returns nil for listeners that have none. Package net does not remove it any more.
func newSocketFile(ln net.Listener, path string) *socketFile {
	unix, ok := ln.(*net.UnixListener)
	if !ok || isAbstract(path) {
		return nil
	}
	unix.SetUnlinkOnClose(false)
	is, err := os.Lstat(path)
	if err != nil { // it was removed already
		return nil
	}
	return &socketFile{path, is}
}

// remove removes the file if it is still the listener's. It is called before the socket is closed: as long as that is open no other file can have
// its number.
func (f *socketFile) remove() {
	if f == nil {
		return
	}
	if now, err := os.Lstat(f.path); err == nil && os.SameFile(f.is, now) {
		_ = os.Remove(f.path)
	}
}

// checkNetwork reports whether a network is Unix, and refuses those that are none of ours.
func checkNetwork(network string) (unix bool, err error) {
	switch network {
	case "unix":
		return true, nil
	case "tcp", "tcp4", "tcp6":
		return false, nil
	}
	return false, net.UnknownNetworkError(network)
}

// check refuses what nobody can mean.
func (o *Options) check() error {
	if o.Mode&^fs.ModePerm != 0 {
		return fmt.Errorf("transport: mode %v is more than permissions", o.Mode)
	}
	return o.Proxy.check()
}

// isAbstract reports whether a Unix address is a name of Linux that is not in the file system. Package net writes its zero byte as @.
func isAbstract(address string) bool { return address == "" || address[0] == '@' || address[0] == 0 }

// removeStale removes a socket file on which nobody listens, and reports whether it did. Nothing but a socket is removed, and none
// that was put there while we looked.
func removeStale(ctx context.Context, path string) bool {
	if isAbstract(path) {
		return false
	}
	before, err := os.Lstat(path)
	if err != nil || before.Mode().Type() != fs.ModeSocket {
		return false
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return false
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // a full backlog, no permission, a datagram socket
		return false
	}
	after, err := os.Lstat(path)
	return err == nil && os.SameFile(before, after) && os.Remove(path) == nil
}

// Dial connects to an address of the networks that [Listen] knows, within the time of ctx. With Options.TLS the handshake is
// made as well; the name of the server is then the address's host if the configuration has none.
func Dial(ctx context.Context, network, address string, o *Options) (net.Conn, error) {
	c := o.withDefaults()
	unix, err := checkNetwork(network)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	d := net.Dialer{
		KeepAlive: -1, // set by us
		Control: func(_, _ string, rc syscall.RawConn) error {
			return control(rc, func(fd int) error { return c.setDialing(fd, unix) })
		},
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.setConn(conn, socketOptions)
	if c.TLS == nil {
		return conn, nil
	}
	config := c.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify && !unix {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = conn.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
	}
	return secure, nil
}
