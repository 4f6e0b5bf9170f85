package udp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-push/sluice/internal/clientaddr"
	"github.com/sluice-push/sluice/internal/sockopt"
)

// Packet is one datagram of a batch.
type Packet struct {
	// Addr is the peer: the sender of a datagram that was read, or the destination of one to write. A connected socket ignores it for writing.
	// After reading, IPv4 addresses are never mapped into IPv6, and the zone of a link-local address is the name of the interface.
	Addr netip.AddrPort
	// Data is the bytes. Reading fills all memory up to the capacity, and sets the length, so a slice of packets can be read into again and
	// again. Packets that are parts of one large slice need a capacity of their own, as in all[i:j:j]. Both for reading and for writing the call
	// borrows the memory until it returns.
	Data []byte
	// Truncated says that a datagram was longer than the memory that it was read into. The rest is lost.
	Truncated bool
}

// Error is an error of a single datagram. The socket stays usable.
type Error struct {
	// Op is "read" or "write".
	Op string
	// Addr is the destination of the datagram; on a connected socket it is the peer.
	Addr netip.AddrPort
	// Err is the cause. Errors of the system contain a syscall.Errno.
	Err error
}

// Error returns a text with the operation, the peer and the cause.
func (e *Error) Error() string {
	s := "udp: " + e.Op + " packet"
	if e.Addr.IsValid() {
		s += " " + e.Addr.String()
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Conn is a UDP socket that reads and writes many datagrams in one call: on Linux in one system call for each batch (recvmmsg(2) and
// sendmmsg(2)), on other systems one by one. Make one with [Listen] or [Dial]. It is also a net.PacketConn and a net.Conn, for
// software that needs these. All methods may be called by any goroutine at any time. Readers take turns, and so do writers that wait. After
// Close all return net.ErrClosed.
//
// A Conn has neither a goroutine nor a queue. Datagrams wait in the kernel's buffers, whose sizes are options. If a buffer is full, the
// kernel drops datagrams: see [Conn.Stats].
type Conn struct {
	// Set when it is made.
	udp        *net.UDPConn
	rc         syscall.RawConn // of udp
	network    string
	remote     netip.AddrPort // of a connected socket
	connected  bool
	v6         bool // the socket is of IPv6, and may also serve IPv4
	peerErrors bool
	fast       *mmsg       // reads and writes batches in one system call; nil if the system cannot
	slow       atomic.Bool // fast is not used, because the kernel does not have the calls

	once sync.Once // for Close

	in, out         counts
	truncated       atomic.Uint64
	passed, refused atomic.Uint64
	full            atomic.Uint64
	drops           dropCount
}

// counts are the counts of one direction.
type counts struct{ packets, bytes, calls atomic.Uint64 }

// Listen returns a socket that exchanges datagrams with any peer. Networks are "udp", "udp4" and "udp6", and addresses those of
// net.ListenPacket. With the address of a multicast group the socket is bound to all addresses, and has not joined the group: see
// [Conn.JoinGroup]. The context is for resolving the address.
func Listen(ctx context.Context, network, address string, o *Options) (*Conn, error) {
	c, err := newConn("listen", network, o)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: c.control(o)}
	conn, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c.start(conn.(*net.UDPConn), o)
}

// Dial returns a socket that exchanges datagrams with one peer only. Dial itself sends nothing. Networks are those of
// [Listen]. The context is for resolving the address.
func Dial(ctx context.Context, network, address string, o *Options) (*Conn, error) {
	c, err := newConn("dial", network, o)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Control: c.control(o)}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.connected = true
	return c.start(conn.(*net.UDPConn), o)
}

// newConn checks the arguments before there is a socket.
func newConn(op, network string, o *Options) (*Conn, error) {
	var err error
	switch network {
	case "udp", "udp4", "udp6":
		err = o.check()
	default:
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, &net.OpError{Op: op, Net: network, Err: err}
	}
	return &Conn{network: network, peerErrors: o != nil && o.PeerErrors}, nil
}

// control returns the function that package net calls with the socket before it is bound. If there are several addresses to dial, the function
// is called for one socket after the other, and the last socket is the one in use.
func (c *Conn) control(o *Options) func(network, address string, rc syscall.RawConn) error {
	return func(network, _ string, rc syscall.RawConn) error {
		c.v6 = network == "udp6"
		return sockopt.WithDescriptor(rc, func(fd int) error { return o.set(fd, c.v6) })
	}
}

// start completes the Conn with the socket.
func (c *Conn) start(udp *net.UDPConn, o *Options) (*Conn, error) {
	c.udp = udp
	if remote, ok := udp.RemoteAddr().(*net.UDPAddr); ok && c.connected {
		c.remote = clientaddr.Canonical(remote.AddrPort())
	}
	var err error
	if c.rc, err = udp.SyscallConn(); err == nil {
		err = o.setBuffers(udp)
	}
	if err != nil {
		_ = udp.Close()
		return nil, err
	}
	c.fast = newMMsg(c.connected, c.v6)
	return c, nil
}

// JoinGroup makes the socket receive datagrams to a multicast group, on its port, through an interface. If ifi is nil, the system chooses the
// interface, unless the group's address has a zone. If source is valid, only datagrams of that host are received (source-specific multicast, RFC
// 4607), and several sources may be joined. Sources work on Linux only; on other systems the error is errors.ErrUnsupported. On Linux the socket
// receives from no group that it has not joined, whatever other sockets join.
func (c *Conn) JoinGroup(group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	return c.changeGroup("join group", group, ifi, source)
}

// LeaveGroup undoes [Conn.JoinGroup], with the same arguments. Datagrams that the socket has received already stay. Close leaves all
// groups.
func (c *Conn) LeaveGroup(group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	return c.changeGroup("leave group", group, ifi, source)
}

// changeGroup joins or leaves a group.
func (c *Conn) changeGroup(op string, group netip.Addr, ifi *net.Interface, source netip.Addr) error {
	g := membership{join: op == "join group", group: group.Unmap().WithZone(""), ifi: ifi, source: source.Unmap().WithZone("")}
	err := g.check()
	if zone := group.Zone(); err == nil && ifi == nil && zone != "" {
		g.ifi, err = net.InterfaceByName(zone)
	}
	if err == nil {
		err = sockopt.WithDescriptor(c.rc, g.set)
	}
	return c.wrap(op, err)
}

// membership is a group to join or leave.
type membership struct {
	join          bool
	group, source netip.Addr
	ifi           *net.Interface
}

func (g membership) check() error {
	switch {
	case !g.group.IsMulticast():
		return &net.AddrError{Err: "not a multicast group", Addr: g.group.String()}
	case g.source.IsValid() && (g.source.Is4() != g.group.Is4() || g.source.IsMulticast() || g.source.IsUnspecified()):
		return &net.AddrError{Err: "not a source for " + g.group.String(), Addr: g.source.String()}
	}
	return nil
}

// index returns the index of the interface, or zero for none.
func (g membership) index() int {
	if g.ifi == nil {
		return 0
	}
	return g.ifi.Index
}

// Buffers returns the sizes in bytes of the kernel's buffers for reading and writing, as the kernel counts them. Linux doubles the requested
// size, within the bounds of net.core.rmem_max and wmem_max, and its own overhead for each datagram takes room in the buffer.
func (c *Conn) Buffers() (read, write int, err error) {
	err = sockopt.WithDescriptor(c.rc, func(fd int) (err error) {
		if read, err = getOption(fd, solSocket, soRcvBuf); err == nil {
			write, err = getOption(fd, solSocket, soSndBuf)
		}
		return err
	})
	return read, write, c.wrap("buffers", err)
}

// wrap wraps an error of the socket as package net does.
func (c *Conn) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: unwrapOp(err)}
}

// unwrapOp removes the wrapping of package net.
func unwrapOp(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// LocalAddr returns the address that the socket is bound to, a *net.UDPAddr. It also works after Close.
func (c *Conn) LocalAddr() net.Addr { return c.udp.LocalAddr() }

// RemoteAddr returns the peer of a connected socket, a *net.UDPAddr, and nil for other sockets. It also works after Close.
func (c *Conn) RemoteAddr() net.Addr { return c.udp.RemoteAddr() }

// SetDeadline sets both deadlines. A deadline in the past makes waiting calls return with an error that is os.ErrDeadlineExceeded. The zero time
// means no deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.udp.SetDeadline(t) }

// SetReadDeadline bounds the waiting for datagrams.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.udp.SetReadDeadline(t) }

// SetWriteDeadline bounds the waiting for room. It does not affect [Conn.TryWriteBatch].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.udp.SetWriteDeadline(t) }

// SyscallConn gives access to the socket, for options that this package does not have. The descriptor belongs to the connection. Reads and
// writes through it are not counted.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.udp.SyscallConn() }

// Close closes the socket. Waiting calls return. Unread datagrams are lost, and written ones are sent. Further calls do nothing and return nil.
func (c *Conn) Close() (err error) {
	c.once.Do(func() {
		c.drops.update(c.rc) // Stats cannot ask the kernel after Close
		err = c.udp.Close()
	})
	return err
}

// Stats are the counts of a socket since it was made.
type Stats struct {
	// ReadPackets and ReadBytes count the datagrams that were read, without the bytes that were cut off.
	ReadPackets, ReadBytes uint64
	// ReadCalls is the number of calls of this package that read them. ReadPackets divided by it is the mean size of a batch.
	ReadCalls uint64
	// Truncated is the number of read datagrams that were longer than their memory.
	Truncated uint64
	// Passed is the number of errors that did not end reading: answers by ICMP and the like to datagrams sent before.
	Passed uint64
	// Dropped is the number of datagrams that the kernel dropped instead of giving them to this socket, mostly because the buffer was full, but
	// also for a wrong checksum. It needs Linux 4.12 or newer; otherwise it is zero.
	Dropped uint64

	// WrittenPackets and WrittenBytes count the datagrams that the kernel took.
	WrittenPackets, WrittenBytes uint64
	// WriteCalls is the number of writes to the kernel, each of at most 1024 datagrams.
	WriteCalls uint64
	// Refused is the number of datagrams that were not sent, each for an error of its own: a *Error.
	Refused uint64
	// Full is the number of times that TryWriteBatch found no room in the kernel's buffer.
	Full uint64
}

// Stats returns the counts so far, also after Close. On Linux it makes a system call, to get Dropped.
func (c *Conn) Stats() Stats {
	c.drops.update(c.rc)
	return Stats{
		ReadPackets:    c.in.packets.Load(),
		ReadBytes:      c.in.bytes.Load(),
		ReadCalls:      c.in.calls.Load(),
		Truncated:      c.truncated.Load(),
		Passed:         c.passed.Load(),
		Dropped:        c.drops.count(),
		WrittenPackets: c.out.packets.Load(),
		WrittenBytes:   c.out.bytes.Load(),
		WriteCalls:     c.out.calls.Load(),
		Refused:        c.refused.Load(),
		Full:           c.full.Load(),
	}
}

// dropCount extends the kernel's count of dropped datagrams, which has 32 bits and wraps around.
type dropCount struct {
	mu    sync.Mutex
	last  uint32
	total uint64
}

// update reads the kernel's count. After Close it does nothing. The lock is not held meanwhile, so a count may arrive late and be old. A count
// that is less than half of the range behind is ignored.
func (d *dropCount) update(rc syscall.RawConn) {
	if err := sockopt.WithDescriptor(rc, func(fd int) error {
		if now, ok := kernelDrops(fd); ok {
			d.add(now)
		}
		return nil
	}); err != nil {
		return
	}
}

// add updates the total with a count of the kernel.
func (d *dropCount) add(now uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more := now - d.last; more < 1<<31 {
		d.last = now
		d.total += uint64(more)
	}
}

func (d *dropCount) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// endsAll reports whether an error concerns the socket, not a datagram: it was closed, or a deadline has passed.
func endsAll(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}
