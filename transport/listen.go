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

	"github.com/sluice-push/sluice/internal/sockopt"
)

// Listen listens on a TCP address ("tcp", "tcp4", "tcp6", as for net.Listen) or on the path of a Unix stream socket ("unix"). The context is for
// resolving the address. A socket file without a listener is replaced. Close removes the socket file, unless another listener has replaced it.
// TCP sockets do not use Multipath TCP, whose connections do not inherit all options. Errors are *net.OpError.
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
			return sockopt.WithDescriptor(rc, func(fd int) error { return c.setUnbound(fd, unix) })
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

// socketFile is the file of a Unix listener. When the listener is closed, a successor may have replaced it.
type socketFile struct {
	path string
	is   fs.FileInfo
}

// newSocketFile returns nil for listeners without a file. Package net does not remove the file any more.
func newSocketFile(ln net.Listener, path string) *socketFile {
	unix, ok := ln.(*net.UnixListener)
	if !ok || isAbstract(path) {
		return nil
	}
	unix.SetUnlinkOnClose(false)
	is, err := os.Lstat(path)
	if err != nil { // the file was removed already
		return nil
	}
	return &socketFile{path, is}
}

// remove removes the file if it still belongs to the listener. It is called before the socket is closed: while the socket is open, no other file
// can have the same inode number.
func (f *socketFile) remove() {
	if f == nil {
		return
	}
	if now, err := os.Lstat(f.path); err == nil && os.SameFile(f.is, now) {
		_ = os.Remove(f.path)
	}
}

// checkNetwork reports whether a network is Unix, and refuses networks that the package does not support.
func checkNetwork(network string) (unix bool, err error) {
	switch network {
	case "unix":
		return true, nil
	case "tcp", "tcp4", "tcp6":
		return false, nil
	}
	return false, net.UnknownNetworkError(network)
}

// check refuses options that make no sense.
func (o *Options) check() error {
	if o.Mode&^fs.ModePerm != 0 {
		return fmt.Errorf("transport: mode %v has bits other than permissions", o.Mode)
	}
	return o.Proxy.check()
}

// isAbstract reports whether a Unix address is a name in Linux's abstract namespace, not in the file system. Package net writes its zero byte as
// @.
func isAbstract(address string) bool { return address == "" || address[0] == '@' || address[0] == 0 }

// removeStale removes a socket file without a listener, and reports whether it did. It removes nothing but a socket, and none that another
// process puts there meanwhile.
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

// Dial connects to an address of the networks of [Listen]. ctx bounds the time. With Options.TLS it makes the handshake too; if the
// configuration has no ServerName, the host of the address is the server's name.
func Dial(ctx context.Context, network, address string, o *Options) (net.Conn, error) {
	c := o.withDefaults()
	unix, err := checkNetwork(network)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	d := net.Dialer{
		KeepAlive: -1, // set by us
		Control: func(_, _ string, rc syscall.RawConn) error {
			return sockopt.WithDescriptor(rc, func(fd int) error { return c.setDialing(fd, unix) })
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
