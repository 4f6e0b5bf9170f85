// Package socket sets what package net does not set on a socket, and knows how many a process may have. All of that depends on the system;
// where the system does not have it, nothing is set.
package socket

import (
	"math"
	"net"
	"syscall"
)

// Options are what is set. The zero value of a field leaves the system's own.
type Options struct {
	// Receive and Send are the kernel's buffers in bytes, of which Linux takes twice as much. What a listener accepts is like it.
	Receive, Send int
	// LatePort has the port of a socket that is bound to an address without one chosen when it connects, when it is known that only the four
	// addresses together have to be unlike all others (Linux: IP_BIND_ADDRESS_NO_PORT of ip(7)).
	LatePort bool
	// NotSent is how many bytes a TCP socket takes, beyond those that are on their way, before it takes no more (TCP_NOTSENT_LOWAT).
	NotSent int
}

// Option is one of setsockopt(2).
type Option struct{ Level, Name, Value int }

// Control returns what net.Dialer and net.ListenConfig call before a socket connects or listens, nil when there is nothing to set. It may
// be used any number of times, concurrently.
func Control(o Options) func(network, address string, c syscall.RawConn) error {
	if o == (Options{}) {
		return nil
	}
	return o.control
}

// Set sets options on a socket that there is already.
func Set(c syscall.Conn, o Options) error {
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return o.control("", "", rc)
}

// Under returns conn, or what is under it, as a T: a TLS connection, or another wrapper, says what that is.
func Under[T any](conn net.Conn) (t T, ok bool) {
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

// Unlimited is what Limit returns where nobody says.
const Unlimited = math.MaxInt32
