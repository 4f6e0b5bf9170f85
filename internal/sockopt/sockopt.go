// Package sockopt has functions for sockets that the standard library lacks: socket options, duplicates of descriptors, the limit of
// descriptors, a spare descriptor, and the names of network interfaces. On systems that lack one of these, the function does nothing.
package sockopt

import (
	"errors"
	"math"
	"net"
	"slices"
	"syscall"
)

// Options are socket options. The zero value of a field leaves the system's default.
type Options struct {
	// Receive and Send are the sizes of the kernel's buffers in bytes. Linux doubles them. Accepted sockets inherit them from the listener.
	Receive, Send int
	// BindNoPort delays the choice of the port of a socket that is bound to an address without one, until the socket connects. Then only the
	// combination of both addresses and both ports has to be unique (Linux: IP_BIND_ADDRESS_NO_PORT of ip(7)).
	BindNoPort bool
	// NotSent is the number of unsent bytes above which a TCP socket accepts no more (TCP_NOTSENT_LOWAT). Bytes that are on their way do not
	// count.
	NotSent int
}

// Option is the arguments of one call of setsockopt(2).
type Option struct{ Level, Name, Value int }

// Control returns a function for the Control fields of net.Dialer and net.ListenConfig, which call it before a socket connects or listens. If no
// option is set, it returns nil. The function may be called any number of times, concurrently.
func Control(o Options) func(network, address string, c syscall.RawConn) error {
	if o == (Options{}) {
		return nil
	}
	return o.control
}

// Set sets options on an existing socket.
func Set(c syscall.Conn, o Options) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return o.control("", "", rc)
}

// Unwrap returns the first connection of type T among conn and the connections that it wraps, at most five in all. A wrapper, such as a TLS
// connection, returns the connection under it from its method NetConn.
func Unwrap[T any](conn net.Conn) (t T, ok bool) {
	for range 5 {
		if t, ok = conn.(T); ok {
			break
		}
		wrapper, wraps := conn.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		conn = wrapper.NetConn()
	}
	return t, ok
}

// Unlimited is the result of FileLimit if the limit is unknown or at least as large.
const Unlimited = math.MaxInt32

// WithDescriptor calls f with the descriptor of a socket. If the socket is closed, the error is net.ErrClosed, and f is not called.
func WithDescriptor(rc syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// IsErrno reports whether err contains one of the error numbers of the system.
func IsErrno(err error, errnos ...syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(errnos, errno)
}
