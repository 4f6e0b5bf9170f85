package transport

import (
	"net"
	"net/netip"
)

// Descriptor is a connected stream socket without a net.Conn: a file descriptor and its addresses. The descriptor is non-blocking, closed on
// exec, and in no poller.
type Descriptor struct {
	// FD is the file descriptor. Its owner closes it, once.
	FD int
	// Unix says that the socket is a Unix socket, which has no addresses here. Otherwise it is a TCP socket.
	Unix bool
	// Remote is the peer's address, and Local that of this end. IPv4 addresses are never mapped into IPv6, and the zone is kept.
	Remote, Local netip.AddrPort
}

// Close closes the descriptor. It must not be called twice: the kernel may have given the number to another file by then.
func (d Descriptor) Close() error { return closeDescriptor(d.FD) }

// Detach takes the socket out of conn, a *net.TCPConn or a *net.UnixConn for streams, and closes conn without closing the socket. Options of the
// socket do not change. No goroutine may be reading or writing.
//
// If conn is anything else or the system is not Linux, ok is false. In that case, and after an error, conn is untouched.
func Detach(conn net.Conn) (d Descriptor, ok bool, err error) { return detach(conn) }

// Duplicate returns a second descriptor for the socket of conn, a *net.TCPConn or a *net.UnixConn for streams. The connection does not change,
// and may be in use. Both have to be closed. A byte is read through one of the two only. Options of the socket do not change.
//
// If conn is anything else or the system is not Linux, ok is false. After an error only conn has to be closed.
func Duplicate(conn net.Conn) (d Descriptor, ok bool, err error) { return duplicate(conn) }

// Attach returns a connection with a duplicate of the descriptor, for a caller that wants to inspect it, or to read and write without an event
// loop. Both have to be closed. Options of the socket do not change. The connection has deadlines of its own. A byte is read through one of the
// two only. On systems other than Linux the error is errors.ErrUnsupported.
func Attach(d Descriptor) (net.Conn, error) { return attach(d) }
