// Package socket sets what has to be set on a socket before it connects or listens, and knows how many a process may have. All of that
// depends on the system; where the system does not have it, nothing is set.
package socket

import (
	"math"
	"syscall"
)

// Options are what is set. The zero value of a field leaves the system's own.
type Options struct {
	// Receive and Send are the kernel's buffers in bytes, of which Linux takes twice as much. What a listener accepts is like it.
	Receive, Send int
	// LatePort has the port of a socket that is bound to an address without one chosen when it connects, when it is known that only the four
	// addresses together have to be unlike all others (Linux: IP_BIND_ADDRESS_NO_PORT of ip(7)).
	LatePort bool
}

// Control returns what net.Dialer and net.ListenConfig call before a socket connects or listens, nil when there is nothing to set. It may
// be used any number of times, concurrently.
func Control(o Options) func(network, address string, c syscall.RawConn) error {
	if o == (Options{}) {
		return nil
	}
	return o.control
}

// Unlimited is what Limit returns where nobody says.
const Unlimited = math.MaxInt32
