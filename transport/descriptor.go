package transport

import (
	"net"
	"net/netip"
)

// Descriptor is a connected stream socket of which only the number is left: non-blocking, closed on exec, and in nobody's poller.
type Descriptor struct {
	// FD is the number. Its owner closes it, once.
	FD int
	// Unix says that it is a Unix socket, which has no addresses here. TCP otherwise.
	Unix bool
	// Remote is the peer, Local this end. IPv4 addresses are in their own form, never mapped into IPv6; the zone is kept.
	Remote, Local netip.AddrPort
}

// Close closes the descriptor. It must not be called twice: the number may be somebody else's by then.
func (d Descriptor) Close() error { return closeDescriptor(d.FD) }

// Detach takes the socket out of a *net.TCPConn or a *net.UnixConn for streams that was made elsewhere, and closes the connection
// without closing the socket. Options of the socket stay as they are. Nobody may be reading or writing.
//
// It returns false, and conn is untouched, when conn is anything else or the system is not Linux. After an error conn is untouched
// as well.
func Detach(conn net.Conn) (d Descriptor, ok bool, err error) { return detach(conn) }

// Duplicate gives the socket of a *net.TCPConn, or of a *net.UnixConn for streams, a second number. The connection stays as it is, and may be
// in use; both have to be closed, and what one of the two reads the other does not see. Options of the socket stay as they are.
//
// It returns false when conn is anything else, also one of [Listener.Late], or the system is not Linux. After an error there is nothing to
// close but conn.
func Duplicate(conn net.Conn) (d Descriptor, ok bool, err error) { return duplicate(conn) }

// Attach makes a connection of a duplicate of the descriptor, for a caller that wants to look at it, or to read and write without
// an event loop. Both have to be closed. Options of the socket stay as they are. Deadlines are the connection's own; a byte that
// one of the two reads the other does not see. Elsewhere than on Linux the error is errors.ErrUnsupported.
func Attach(d Descriptor) (net.Conn, error) { return attach(d) }
